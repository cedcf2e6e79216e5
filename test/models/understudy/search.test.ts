import { expect, test } from 'vitest'
import { createSearch } from '../../../src/models/understudy/search.ts'

const passage = { id: 0, cue: '', hint: '', answer: 'The tram to the harbour leaves at noon.', source: 'self' } as const

test.each([
  ['the harbor', 1],
  ['the harbour', 1],
  ['a'.repeat(100_000), 0],
])('a word is found with a wrong letter, but no typing errors are looked for in a long word, %#', (question, hits) => {
  const search = createSearch([passage])
  expect(search(question)).toHaveLength(hits)
})
