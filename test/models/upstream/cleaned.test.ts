import { expect, test } from 'vitest'
import { cleaned, refusalFrom } from '../../../src/models/upstream/errors.ts'

const key = 'abcdefghij'.repeat(4)

test.each([
  ['after 980 characters', `${'word '.repeat(196)}${key} end`],
  ['at the end of the searched text', `${'word '.repeat(798)}${key} end`],
])('a message shows no part of a key %s', (_where, message) => {
  const text = cleaned(message, [])
  expect(text).not.toContain('abc')
  expect(text.length).toBeLessThanOrEqual(1001)
})

test.each([
  ['in a script without spaces', '错误：上下文太长'.repeat(600), '错误：上下文太长'],
  ['in lines', 'Error\n'.repeat(1000), 'Error\nError'],
])('a long message %s is shown in part', (_what, message, part) => {
  expect(cleaned(message, [])).toContain(part)
})

test('a message of megabytes is cut before its keys are replaced, and shows no part of the key at the cut', () => {
  const secret = 'garden key of Ann, '.repeat(10)
  for (let before = 0; before <= secret.length; before++) {
    const text = cleaned(`${'-'.repeat(before)} ${secret.repeat(1000)}`, [secret])
    expect(text).toMatch(/-* …+$/)
    expect(text).not.toMatch(/garden|key|of|Ann/)
  }
})

test('a message is cut between two characters', () => {
  expect(cleaned(`a${'🌿'.repeat(1000)}`, [])).toSatisfy((text: string) => text.isWellFormed())
})

test.each([
  ['of a known form', key, []],
  ['of the settings', 'garden key of Ann', ['garden key of Ann']],
])('no part of a key %s is shown where markup makes a long message short', (_what, secret, secrets) => {
  const markup = `<${'m'.repeat(3900)}> `
  for (let before = 4000 - secret.length; before <= 4000; before++) {
    const message = `${markup}${'-'.repeat(before - markup.length - 1)} ${secret} end`
    const error = refusalFrom({ status: 400, body: JSON.stringify({ error: { message } }) }, secrets)
    expect(error.message).not.toMatch(/abc|garden/)
  }
})
