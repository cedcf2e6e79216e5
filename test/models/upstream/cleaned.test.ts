import { expect, test } from 'vitest'
import { cleaned } from '../../../src/models/upstream/errors.ts'

const key = 'abcdefghij'.repeat(4)

test.each([
  ['after 980 characters', `${'word '.repeat(196)}${key} end`],
  ['at the end of the searched text', `${'word '.repeat(798)}${key} end`],
])('a message shows no part of a key %s', (_where, message) => {
  const text = cleaned(message, [])
  expect(text).not.toContain('abc')
  expect(text.length).toBeLessThanOrEqual(1001)
})

test('a message is cut between two characters', () => {
  expect(cleaned(`a${'🌿'.repeat(1000)}`, [])).toSatisfy((text: string) => text.isWellFormed())
})
