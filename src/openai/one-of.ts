import { Type } from '@sinclair/typebox'

/** One of these words; a plain enum in JSON Schema, and a readable fault. */
export const oneOf = <const T extends readonly string[]>(...words: T) =>
  Type.Unsafe<T[number]>({
    ...Type.Union(words.map((word) => Type.Literal(word))),
    errorMessage: `send one of ${words.join(', ')}`,
  })
