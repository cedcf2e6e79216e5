import { expect, test } from 'vitest'
import { countTokens } from '../../src/models/count-tokens.ts'
import { loadTokenizer } from '../../src/models/tokenizer.ts'
import type { Message } from '../../src/openai/completion-request.ts'
import { WorkerPool } from '../../src/work/pool.ts'
import { Works } from '../../src/work/work.ts'

const tokenizer = await loadTokenizer()
const prose = 'The quick brown fox jumps over the lazy dog. '

test.each([
  ['a short prompt here', 100, 0],
  ['a long prompt in the pool', 2000, 1],
])('counts %s, whatever other fields its messages have', async (_what, times, workers) => {
  await using pool = closing(new WorkerPool())
  const content = prose.repeat(times)
  const big = JSON.rawJSON('9223372036854775807')
  const call = { id: 'c', type: 'function' as const, function: { name: 'look', arguments: '{}' } }
  const messages: readonly Message[] = [
    Object.assign({ role: 'user' as const, name: 'Ada', content }, { seen: big }),
    { role: 'assistant', content: null, tool_calls: [call] },
  ]
  const counts = await countTokens({ messages }, prose, new Works(pool).workOf({ account: 1 }))
  expect(counts).toEqual({ prompt: tokenizer.countMessages(messages), answer: tokenizer.count(prose) })
  expect(pool.workers).toBe(workers)
})

test('counts a prompt that a worker has composed from its JSON', async () => {
  await using pool = closing(new WorkerPool())
  const json = [{ role: 'user', content: prose }]
  const sent = {
    messagesJson: Buffer.from(JSON.stringify(json)),
    get messages(): readonly Message[] {
      throw new Error('the messages are read')
    },
  }
  const { prompt } = await countTokens(sent, '', new Works(pool).workOf({ account: 1 }))
  expect(prompt).toBe(tokenizer.countMessages([{ role: 'user', content: prose }]))
})

function closing(pool: WorkerPool) {
  return Object.assign(pool, { [Symbol.asyncDispose]: () => pool.close() })
}
