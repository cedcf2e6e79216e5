import { Kind, type SchemaOptions, type TSchema, Type, TypeRegistry } from '@sinclair/typebox'
import { isFields } from '../fields.ts'
import { maxRequestFields } from '../json.ts'

/** The rules of a request as a whole. The reader of the body refuses more fields. */
export const requestRules = {
  maxProperties: maxRequestFields,
  description: 'A request has at most 1,000 fields; one with more is a 400 `too_complex`.',
}

/**
 * The fields of a request whose numbers are read here: all of its schema but those that pass through.
 * @param schema the schema of the request
 * @param open the names of known fields that pass through
 */
export const numbersReadOf = (
  schema: { readonly properties: object },
  ...open: readonly string[]
): ReadonlySet<string> => new Set(Object.keys(schema.properties).filter((name) => !open.includes(name)))

/** The kinds of request fields. The `errorMessage` of each kind is the end of a sentence that says what to send. */

/** One of these words, with an error message that lists them. */
export const oneOf = <const T extends readonly string[]>(...words: T) =>
  Type.Unsafe<T[number]>({
    ...Type.Union(words.map((word) => Type.Literal(word))),
    errorMessage: `send one of ${words.join(', ')}`,
  })

/** An optional field. OpenAI's clients send null for a field that they do not set. */
export const nullable = <T extends TSchema>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]))

/** An optional boolean, or null. */
export const flag = () => nullable(Type.Boolean({ errorMessage: 'send true or false' }))

/** A number from `minimum` to `maximum`. */
export const between = (minimum: number, maximum: number) =>
  Type.Number({ minimum, maximum, errorMessage: `send a number from ${minimum} to ${maximum}` })

/** A whole number from `minimum` to `maximum`. */
export const wholeBetween = (minimum: number, maximum: number) =>
  Type.Integer({ minimum, maximum, errorMessage: `send a whole number from ${minimum} to ${maximum}` })

/** A text. */
export const text = (rules: { minLength?: number } = {}) =>
  Type.String({ ...rules, errorMessage: rules.minLength ? 'send a text that is not empty' : 'send a text' })

/** The most characters of the id of a tool call. */
const maxCallIdLength = 16_000

/**
 * The id of a tool call. OpenAI's ids have some 30 characters, but a gateway to Gemini may put a signature of many kilobytes into
 * an id. V8 hashes a string of more than 16,383 characters by its length alone, so many longer ids would make a set slow.
 */
export const callId = () =>
  Type.String({
    minLength: 1,
    maxLength: maxCallIdLength,
    errorMessage: `send a text of 1 to ${maxCallIdLength} characters`,
  })

/** The name of a tool. OpenAI's names have at most 64 characters. */
export const toolName = () =>
  Type.String({ minLength: 1, maxLength: 128, errorMessage: 'send a text of 1 to 128 characters' })

// To find the first error of a body, TypeBox would go through all properties of a record: 100,000 took a quarter of a second.
TypeRegistry.Set('AnyObject', (_schema, value) => isFields(value))

/** An object with any properties. */
export const anyObject = (rules: SchemaOptions) =>
  Type.Unsafe<Record<string, unknown>>({ ...Type.Record(Type.String(), Type.Unknown(), rules), [Kind]: 'AnyObject' })

// JSON Schema counts code points. TypeBox's string counts UTF-16 units, so an emoji would count as two.
TypeRegistry.Set<{ maxLength: number }>('ShortText', ({ maxLength }, value) => {
  if (typeof value !== 'string' || value.length > 2 * maxLength) return false
  return value.length <= maxLength || [...value].length <= maxLength
})

/** A text of at most `maxLength` characters (code points). */
export const shortText = (maxLength: number, rules: SchemaOptions) =>
  Type.Unsafe<string>({
    ...rules,
    [Kind]: 'ShortText',
    type: 'string',
    maxLength,
    errorMessage: `send a text of at most ${maxLength} characters`,
  })
