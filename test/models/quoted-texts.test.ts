import { expect, test } from 'vitest'
import { withoutTextsOf } from '../../src/models/quoted-texts.ts'

const request = {
  model: 'gpt-5-mini',
  messages: [
    { role: 'system', content: 'You are Fern, the botanist.\nStay in character.' },
    { role: 'user', content: [{ type: 'text', text: 'My door code is 4711, and I feel “so very sad” today.' }] },
    { role: 'assistant', content: '我的叶子黄了' },
  ],
  user: 'ada@example.org',
  max_tokens: 99999,
}

test.each<[string, string, string | undefined]>([
  ['keeps its own words', 'Rate limit reached for requests per minute.', 'Rate limit reached for requests per minute.'],
  ['keeps common short words', 'The code of the model is not known.', 'The code of the model is not known.'],
  [
    'keeps the model and names of fields',
    'No gpt-5-mini with max_tokens 99999.',
    'No gpt-5-mini with max_tokens 99999.',
  ],
  ['keeps roles', 'An assistant message is empty.', 'An assistant message is empty.'],
  ['hides a run of words', 'Invalid: I feel “so very sad” today, in messages[1].', 'Invalid: …, in messages[1].'],
  ['hides a run of words in upper case', 'Refused: YOU ARE FERN, THE BOTANIST.', 'Refused: ….'],
  ['hides a long word', 'No botanist is allowed.', 'No … is allowed.'],
  ['hides a number', 'The value 4711 is too high; 4096 is the most.', 'The value … is too high; 4096 is the most.'],
  ['hides other scripts', 'Not allowed: 叶子', 'Not allowed: …'],
  ['is removed if it is only a quote', 'You are Fern, the botanist.', undefined],
])('an upstream’s sentence %s', (_what, sentence, left) => {
  expect(withoutTextsOf(request, sentence)).toBe(left)
})

test.each([JSON.stringify(request), JSON.stringify(JSON.stringify(request)), JSON.stringify(request, null, 2)])(
  'hides all texts of a request that is quoted as a whole: %s',
  (quote) => {
    expect(withoutTextsOf(request, `Bad body ${quote}`) ?? '').not.toMatch(/botanist|4711|so very|叶|ada@|Stay in/i)
  },
)

test('for a long request, no sentence is kept', () => {
  expect(withoutTextsOf({ messages: ['a'.repeat(70_000)] }, 'Too long.')).toBeUndefined()
})
