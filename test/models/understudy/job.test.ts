import { readFileSync } from 'node:fs'
import { afterAll, describe, expect, test } from 'vitest'
import type { ModelRequest } from '../../../src/models/model.ts'
import type { CompletionRequest } from '../../../src/openai/completion-request.ts'
import { WorkerPool } from '../../../src/work/pool.ts'
import { type Work, Works, workAtOnce } from '../../../src/work/work.ts'
import { kept } from '../../support/kept-cards.ts'
import { asking, chunksOf, completionOf, mallow, mallowWith, textOf } from '../../support/mallow.ts'

const pool = new WorkerPool()
afterAll(() => pool.close())
const { runInPool } = new Works(pool).workOf({ account: 1 })
/** Work that runs all jobs in a worker. */
const inWorker: Work = { ...workAtOnce(), run: runInPool, runInPool }

describe('a reply that a worker makes', () => {
  const fern = kept(JSON.parse(readFileSync('data/characters/fern.json', 'utf8')))
  const parameters = {
    required: ['id', 'note'],
    properties: { id: { const: JSON.rawJSON('12345678901234567890') }, note: { type: 'string' } },
  }
  const tool = { type: 'function' as const, function: { name: 'write', parameters } }

  test.each<[string, Partial<CompletionRequest>]>([
    ['of several choices', { n: 3, seed: 2 }],
    ['that is cut', { max_tokens: 5, stop: ['the'] }],
    ['with a call, whose numbers are as they were written', { tools: [tool], tool_choice: 'required' }],
    [
      'for a schema, with a number as it was written',
      { response_format: { type: 'json_schema', json_schema: { name: 'note', schema: parameters } } },
    ],
  ])('is the same as one that is made here, whole and streamed: %s', async (_, body) => {
    const request = asking('My pothos has yellow leaves, what is wrong?', body, fern)
    const here = await completionOf(request)
    const there = await completionOf({ ...request, work: inWorker })
    expect({ ...there, id: '', created: 0 }).toEqual({ ...here, id: '', created: 0 })
    const deltas = async (work: Work) => (await chunksOf({ ...request, work })).map(({ choices }) => choices)
    expect(await deltas(inWorker)).toEqual(await deltas(request.work))
    if (body.tools)
      expect(here.choices[0]?.message.tool_calls?.[0]?.function.arguments).toContain('12345678901234567890')
  })

  test('does not read fields of messages that are not texts', async () => {
    const told = { role: 'user' as const, content: 'Whose kitten is this?', weight: JSON.rawJSON('1e400') }
    expect(await textOf({ ...asking([told]), work: inWorker })).toContain('Ledger')
  })

  test('reads messages that a worker has composed from their JSON', async () => {
    const request = asking('Whose kitten is this?')
    const messagesJson = Buffer.from(JSON.stringify(request.body.messages))
    const composed = { ...request, body: { ...request.body, messages: [] }, messagesJson, work: inWorker }
    expect((await completionOf(composed)).usage).toEqual((await completionOf(request)).usage)
  })
})

describe('the pool gets', () => {
  /** Whether the reply to a request is made in the pool at once. */
  async function isInPool(request: ModelRequest): Promise<boolean> {
    let inPool = false
    const work: Work = {
      ...workAtOnce(),
      runInPool: async (...job) => {
        inPool = true
        return workAtOnce().run(...job)
      },
    }
    await textOf({ ...request, work })
    return inPool
  }

  test.each<[string, boolean, ModelRequest]>([
    ['no small request', false, asking('Hello')],
    ['a text over 64 KiB', true, asking(`Hello ${'x '.repeat(33_000)}`)],
    ['a schema over 64 KiB', true, asking('Hi', { tools: [toolWith('x'.repeat(66_000))] })],
    ['a heavy card', true, asking('Hello', {}, { ...mallow, isHeavy: true })],
    ['a card over 32 KiB', true, asking('Hello', {}, mallowWith({ creator_notes: 'x'.repeat(33_000) }))],
  ])('%s', async (_, expected, request) => {
    expect(await isInPool(request)).toBe(expected)
  })
})

function toolWith(description: string) {
  return { type: 'function' as const, function: { name: 'write', parameters: { description } } }
}
