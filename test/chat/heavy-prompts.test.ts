import { afterAll, describe, expect, test } from 'vitest'
import { type PromptSources, RequestComposer } from '../../src/chat/request-composer.ts'
import type { Fields } from '../../src/fields.ts'
import type { Model } from '../../src/models/model.ts'
import { Candidate } from '../../src/models/routing/candidate.ts'
import type { CompletionRequest } from '../../src/openai/completion-request.ts'
import { WorkerPool } from '../../src/work/pool.ts'
import { type Work, Works, workAtOnce } from '../../src/work/work.ts'
import { keptBook, keptCard } from '../support/kept-cards.ts'
import { onlyCall, post, service, upstreamServiceForThisFile } from '../support/upstream-service.ts'

upstreamServiceForThisFile()

const pool = new WorkerPool()
afterAll(() => pool.close())

const model: Model = {
  ignoredParameters: null,
  async complete() {
    throw new Error('no request is sent')
  },
  async *stream() {},
}
const candidate = new Candidate({ name: 'm', upstreamId: 'm', retries: 0 }, model, null)
const body: CompletionRequest = { model: 'm', messages: [{ role: 'user', content: 'Hello, Ada of the garden!' }] }
const card = keptCard({ description: 'A gardener. {{pick:a,b,c}}', first_mes: 'Good day.' })
const plain: PromptSources = { settings: { systemPrompt: 'MAIN' }, worldBooks: [] }

/** Composes as the service does. @returns the composed request, and whether it was composed in a worker */
async function composedBy(work: Work, sources: PromptSources, { persona = card, isLarge = false } = {}) {
  const asked = { name: 'Moss', card: persona, userName: 'Ada', digest: persona.digest }
  const composer = new RequestComposer(body, asked, sources, work, { isLarge })
  await composer.requestFor(candidate)
  const { request, size } = composer.composedFor(candidate)
  return { request, isFromWorker: request.messagesJson !== undefined, prompt: composer.promptOf(candidate), size }
}

const workOf = () => new Works(pool).workOf({ account: 1 })
const withLorebook = (lorebook: Fields): PromptSources => ({
  ...plain,
  texts: { lorebooks: [lorebook], seesCard: true },
})
const entry = (keys: readonly string[], content = 'The garden.') => ({ entries: [{ keys, content, extensions: {} }] })

describe('a prompt is composed in a worker', () => {
  test.each<readonly [string, PromptSources, Parameters<typeof composedBy>[2]]>([
    ['if the body is large', plain, { isLarge: true }],
    ['if the card is heavy', plain, { persona: { ...card, isHeavy: true } }],
    ['if a world book is heavy', { ...plain, worldBooks: [{ ...keptBook(entry(['a'])), isHeavy: true }] }, {}],
    ['if a lorebook of the request has a pattern', withLorebook(entry([' /gard[e]n/i '])), {}],
    ['if a decorator has a pattern', withLorebook(entry(['a'], '@@additional_keys /x/\nBody')), {}],
  ])('%s, with the same messages as here', async (_what, sources, more) => {
    const { request, isFromWorker, prompt, size } = await composedBy(workOf(), sources, more)
    const inline = await composedBy(
      { ...workAtOnce(), runInPool: async (...args) => workAtOnce().run(...args) },
      sources,
    )
    expect([isFromWorker, inline.isFromWorker]).toEqual([true, false])
    expect(Buffer.from(request.messagesJson ?? []).toString()).toBe(JSON.stringify(inline.request.body.messages))
    expect(request.body.messages).toEqual(inline.request.body.messages)
    expect(prompt.messages).toBe(request.body.messages)
    expect(prompt.size).toEqual(size)
  })

  test.each<readonly [string, PromptSources]>([
    ['without lorebooks', plain],
    ['with a lorebook without patterns', withLorebook(entry(['garden', 'and/or'], '@@depth 1\nBody'))],
    ['with a small world book', { ...plain, worldBooks: [keptBook(entry(['a']))] }],
  ])('and here if it is small: %s', async (_what, sources) => {
    expect((await composedBy(workOf(), sources)).isFromWorker).toBe(false)
  })

  test('if it has spent the units of small work here', async () => {
    const costly = keptCard({ description: '{{roll:1000d1}}'.repeat(2900) })
    expect((await composedBy(workOf(), plain, { persona: costly })).isFromWorker).toBe(true)
  })
})

test('a large chat goes to the upstream as it was sent, with numbers that no double can hold', async () => {
  const long = Array.from({ length: 400 }, (_none, index) => ({
    role: index % 2 === 0 ? 'user' : 'assistant',
    content: `${index} ${'The leaves turn. '.repeat(30)}茶`,
  }))
  const sent = JSON.stringify({ model: 'gpt-test', messages: long, temperature: 0.5 }).replace(
    '"role":"user"',
    '"weight":9007199254740993,"role":"user"',
  )
  const reply = await service.request('/chat/completions', {
    method: 'POST',
    body: sent,
    headers: { 'content-type': 'application/json' },
  })
  expect(reply.status).toBe(200)
  const { text } = onlyCall()
  const start = sent.indexOf('"messages":')
  expect(text).toContain(sent.slice(start, sent.indexOf(',"temperature"')))
  expect(JSON.parse(text)).toMatchObject({ temperature: 0.5 })
  expect((await post({ model: 'understudy', messages: long })).status).toBe(200)
})
