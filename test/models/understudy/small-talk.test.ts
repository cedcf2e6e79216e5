import { describe, expect, test } from 'vitest'
import { smallTalkOf } from '../../../src/models/understudy/small-talk.ts'
import { fold } from '../../../src/models/understudy/words.ts'

describe('smallTalkOf', () => {
  test.each([
    ['haha, hahaha! ok', 'assent'],
    ['Hahaha really? no way', 'assent'],
    ['hahaha you', null],
    ['hello sir knight', 'greeting'],
    ['Good morning, my-lord of Oak.', 'greeting'],
    ['bye sweet lady ', 'farewell'],
    ['hello to each of them', null],
    ['Hi... and who are you?', 'who'],
    ['hey Ida, who are you', 'who'],
    ['hi who are you', 'who'],
  ])('the kind of %j is %j', (text, kind) => {
    expect(smallTalkOf(text, ['Ida'])).toBe(kind)
  })

  test.each([
    ['laughter', `${'haha'.repeat(2000)} you are so funny`],
    ['laughter between other words', `${'no hahap'.repeat(2000)}\0`],
    ['one word', `hello ${'a'.repeat(20_000)})`],
    ['a farewell of one word', `bye ${'a'.repeat(20_000)})`],
    ['blanks', `hi${' '.repeat(100_000)}x`],
    ['commas', `hi${','.repeat(100_000)}x`],
  ])('a long text has no kind, and is read in time: %s', (_what, text) => {
    expect(smallTalkOf(text, ['Ida'])).toBeNull()
  })

  test('a word whose letters become several letters is read in time', () => {
    expect(smallTalkOf(`hello ${'㌖'.repeat(600)})`, ['Ida'])).toBe('greeting')
  })
})

test('a folded text has at most twice the letters of the text, and a hundred more', () => {
  expect(fold('Straße ½ ﬁne ﷺ …')).toBe('straße 1⁄2 fine صلى الله عليه وسلم ...')
  expect(fold('\ufdfa'.repeat(1000))).toHaveLength(2100)
})
