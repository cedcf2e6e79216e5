import { card } from './cards.ts'
import { hi, json, postRow, type Row, randomLetters, times } from './row.ts'

/* Large chats without a JSON schema, and chats with many cards. */

const chat = (model: string, messages: readonly object[], more: object = {}) => ({ model, messages, ...more })
const said = (content: string) => [{ role: 'user', content }]
const largest = 7_500_000

const row =
  (path: string) =>
  (name: string, model: string, messages: () => readonly object[], more: Partial<Row> = {}) =>
    postRow(name, path, () => json(chat(model, messages())), { small: chat(model, hi), isLargest: true, ...more })
const prompt = row('/chat/prompt')
const completion = row('/chat/completions')

const tools = [{ type: 'function', function: { name: 'get_weather' } }]
/** A row of a short message that is expensive to recognize as small talk. It is played by a character. */
const smallTalk = (name: string, content: string) => {
  const body = (messages: readonly object[]) => chat('understudy', messages, { character: 'Fern' })
  return postRow(`small talk: ${name}`, '/chat/completions', () => json(body(said(content))), { small: body(hi) })
}

const letters = () => said(randomLetters(largest))
const turns = (count: number, content: (index: number) => string) => () =>
  times(count, (index) => ({ role: index % 2 === 0 ? 'user' : 'assistant', content: content(index) }))

/** Prompts of many small cards, each for many users with long names. The service caches the texts of each card for each user. */
const manyNames: Row = {
  name: '32 cards of 24 kB with 2,990 {{user}}, for 3 users with names of 200 letters each',
  maxAttackers: 1,
  prepare: () => async (attacker) => {
    for (let index = 0; index < 32; index++) {
      const character = `Moss${index}`
      // Cards with the same bytes would be one card in the cache.
      const body = json(card({ description: `${index} Ā${'{{user}}'.repeat(2990)}` }))
      await attacker.put(`/characters/${character}`, body)
      for (const user of '123') {
        await attacker.post(
          '/chat/prompt',
          json({ model: 'understudy', character, user_name: user.padEnd(200, 'é'), messages: hi }),
        )
      }
    }
  },
}

export const chats: readonly Row[] = [
  manyNames,
  prompt('/chat/prompt with 7.5 MB of random letters, no token limit', 'understudy', letters),
  prompt('/chat/prompt with 7.5 MB of random letters, contextWindow 1,000,000', 'wide', letters),
  prompt('/chat/prompt with 75 messages of 100 kB of random letters, drop-oldest', 'dropping', () =>
    turns(75, () => randomLetters(100_000))(),
  ),
  completion('a completion with 7.5 MB of random letters', 'understudy', letters),
  completion('a completion with 7.5 MB of blanks', 'understudy', () => said(' '.repeat(largest))),
  completion('a completion with 7.5 MB of words', 'understudy', () =>
    said('why are my leaves turning yellow '.repeat(227_000)),
  ),
  completion('a completion with 7.2 MB of one emoji', 'understudy', () => said('🌿'.repeat(1_800_000))),
  smallTalk('laughter', `${'haha'.repeat(400)} you are so funny`),
  smallTalk('a greeting of one word', `hello ${'a'.repeat(1990)})`),
  smallTalk('letters that become six letters each', `hello ${'㌖'.repeat(1990)})`),
  smallTalk('one word of ligatures', '\ufdfa'.repeat(1990)),
  smallTalk('a greeting and blanks', `hi${' '.repeat(1990)}x`),
  smallTalk('a chain of nouns', `Where is a ${'b of '.repeat(390)}?`),
  postRow(
    'a message of 100,000 ligatures with a tool',
    '/chat/completions',
    () => json(chat('understudy', said('\ufdfa'.repeat(100_000)), { tools })),
    { small: chat('understudy', hi, { tools }) },
  ),
  postRow(
    'a tool_choice with a name of 7.5 MB',
    '/chat/completions',
    () =>
      json(
        chat('understudy', hi, { tools, tool_choice: { type: 'function', function: { name: 'é'.repeat(3_700_000) } } }),
      ),
    { small: chat('understudy', hi, { tools }), isLargest: true },
  ),
  completion(
    '150,000 messages to the understudy',
    'understudy',
    turns(150_000, (index) => `Line ${index}`),
  ),
  prompt(
    '/chat/prompt with 150,000 messages',
    'understudy',
    turns(150_000, (index) => `Line ${index}`),
  ),
  prompt(
    '/chat/prompt with 150,000 messages, drop-oldest',
    'dropping',
    turns(150_000, (index) => `Line ${index}`),
  ),
  completion('200,000 parts of a message', 'understudy', () => [
    { role: 'user', content: times(200_000, () => ({ type: 'text', text: 'Hi' })) },
  ]),
  completion('25,000 tool calls and their results', 'understudy', () => toolCalls(25_000)),
  postRow(
    'a tool with 90,000 numbers of 23 digits, passed on',
    '/chat/completions',
    () => {
      const numbers = times(90_000, (index) => 1.23456789e-300 * (1 + index * 1e-7))
      const parameters = { type: 'object', x: numbers }
      return json(chat('relay', hi, { tools: [{ type: 'function', function: { name: 'f', parameters } }] }))
    },
    { small: chat('relay', hi), isLargest: true },
  ),
  prompt('/chat/prompt with a picture of 7.5 MB', 'understudy', () => [
    {
      role: 'user',
      content: [{ type: 'image_url', image_url: { url: `data:image/png;base64,${'A'.repeat(largest)}` } }],
    },
  ]),
  postRow(
    'a response to 19,900 calls in a row',
    '/responses',
    () =>
      json({
        model: 'understudy',
        input: [...hi, ...times(19_900, (index) => ({ type: 'function_call', call_id: `c${index}`, name: 'f' }))],
      }),
    { small: { model: 'understudy', input: hi } },
  ),
]

/** The messages of a conversation: an assistant's tool calls, their results, and a message of the user. */
export function toolCalls(count: number, given = '{}'): readonly object[] {
  const call = (index: number) => ({ id: `c${index}`, type: 'function', function: { name: 'f', arguments: given } })
  return [
    ...hi,
    { role: 'assistant', content: null, tool_calls: times(count, call) },
    ...times(count, (index) => ({ role: 'tool', tool_call_id: `c${index}`, content: 'x' })),
    ...hi,
  ]
}
