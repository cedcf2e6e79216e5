import { expect, test } from 'vitest'
import { mergeMessages } from '../../src/models/merge-messages.ts'
import type { Message } from '../../src/openai/completion-request.ts'

const user: Message = { role: 'user', content: 'Hi' }
const refused: Message = { role: 'assistant', content: null, refusal: 'I cannot.' }
const parts: Message = { role: 'assistant', content: [{ type: 'text', text: 'Parts.' }] }

/** The messages of the assistant after the merge of a conversation. */
function merged(...messages: readonly Message[]): readonly Message[] {
  return mergeMessages([user, ...messages]).slice(1)
}

test.each<[what: string, messages: readonly Message[], content: Message['content']]>([
  ['after a text', [{ role: 'assistant', content: 'Yes?' }, refused], 'Yes?\n\nI cannot.'],
  ['before a text', [refused, { role: 'assistant', content: 'Yes?' }], 'I cannot.\n\nYes?'],
  ['beside a text', [{ role: 'assistant', content: 'Well.', refusal: 'No.' }, refused], 'Well.\n\nNo.\n\nI cannot.'],
  [
    'after parts',
    [parts, refused],
    [
      { type: 'text', text: 'Parts.' },
      { type: 'text', text: 'I cannot.' },
    ],
  ],
  [
    'beside parts',
    [refused, { ...parts, refusal: 'No.' }],
    [
      { type: 'text', text: 'I cannot.' },
      { type: 'text', text: 'Parts.' },
      { type: 'refusal', refusal: 'No.' },
    ],
  ],
])('a refusal %s is joined too', (_what, messages, content) => {
  expect(merged(...messages)).toStrictEqual([{ role: 'assistant', content }])
})

test('a message without content adds nothing', () => {
  const silent: Message = { role: 'assistant', content: null }
  expect(merged(silent, { role: 'assistant', content: 'Yes?' }, silent)).toStrictEqual([
    { role: 'assistant', content: 'Yes?' },
  ])
})

test('a merged message has the other fields of all its messages, and different values are not merged', () => {
  const thought = (reasoning_content: string, content = 'Yes.') => ({
    role: 'assistant' as const,
    content,
    reasoning_content,
  })
  const plain: Message = { role: 'assistant', content: 'Hm.' }
  expect(merged(plain, thought('a'))).toStrictEqual([{ ...thought('a'), content: 'Hm.\n\nYes.' }])
  expect(merged(thought('a'), plain, thought('a'))).toStrictEqual([{ ...thought('a'), content: 'Yes.\n\nHm.\n\nYes.' }])
  expect(merged(plain, thought('a'), thought('b'))).toStrictEqual([
    { ...thought('a'), content: 'Hm.\n\nYes.' },
    thought('b'),
  ])
})

test('a refusal that is not merged stays as it is', () => {
  expect(merged(refused)).toStrictEqual([refused])
})

test("a message with OpenAI's older function_call stays as it is", () => {
  const first: Message = { role: 'assistant', content: 'Let me look.' }
  const call = { role: 'assistant' as const, content: null, function_call: { name: 'look', arguments: '{}' } }
  expect(merged(first, call)).toStrictEqual([first, call])
})
