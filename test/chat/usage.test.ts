import { describe, expect, it } from 'vitest'
import { UsageWatch } from '../../src/chat/usage.ts'
import { ApiError } from '../../src/errors.ts'
import type { Chunk } from '../../src/openai/completion.ts'
import { type Work, workAtOnce } from '../../src/work/work.ts'
import { failingWork } from '../support/failing-work.ts'

const prompt = { messages: [{ role: 'user' as const, content: 'How is my basil? '.repeat(30) }] }
const said: Chunk = {
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'm',
  choices: [{ index: 0, delta: { content: 'It needs water. '.repeat(20) }, logprobs: null, finish_reason: null }],
}

/** The usage of a reply whose upstream sent none. */
async function usageWith(work: Work) {
  const watch = new UsageWatch(work)
  watch.begin(prompt)
  watch.note(said)
  return (await watch.chunk()).usage
}

describe('the usage of a stream whose upstream sends none', () => {
  it('is counted, or estimated by bytes if counting takes too much work, so that the reply does not fail', async () => {
    const counted = await usageWith(workAtOnce())
    const byBytes = await usageWith(failingWork(new ApiError(400, 'too_complex', 'Too much.')))
    for (const usage of [counted, byBytes]) {
      expect(usage?.total_tokens).toBe((usage?.prompt_tokens ?? 0) + (usage?.completion_tokens ?? 0))
    }
    expect(byBytes?.prompt_tokens).toBe(Math.ceil((17 * 30) / 3) + 4)
    expect(byBytes?.completion_tokens).toBe(Math.ceil((16 * 20) / 3))
    expect(counted?.completion_tokens).toBeLessThan(byBytes?.completion_tokens ?? 0)
  })

  it('counts the first 1,048,576 characters of a stream, and estimates the rest by bytes', async () => {
    const watch = new UsageWatch(workAtOnce())
    const content = 'a '.repeat(2 ** 17)
    const [choice] = said.choices
    if (!choice) throw new Error('no choice')
    for (let piece = 0; piece < 5; piece++) watch.note({ ...said, choices: [{ ...choice, delta: { content } }] })
    const { usage } = await watch.chunk()
    const [kept, rest] = [4 * 2 ** 17 + 1, Math.ceil(2 ** 18 / 3)]
    expect(usage.completion_tokens).toBe(kept + rest)
  })

  it('fails if counting fails for any other reason', async () => {
    await expect(usageWith(failingWork(new ApiError(499, 'client_gone', 'The client went away.')))).rejects.toThrow(
      'went away',
    )
  })
})
