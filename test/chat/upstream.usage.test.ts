import { describe, expect, test } from 'vitest'
import { withUsage } from '../../src/chat/reply-format.ts'
import { RequestComposer } from '../../src/chat/request-composer.ts'
import { truncationOf } from '../../src/chat/usage.ts'
import { ApiError } from '../../src/errors.ts'
import type { Model } from '../../src/models/model.ts'
import { Candidate } from '../../src/models/routing/candidate.ts'
import { InFlightRequests, Route } from '../../src/models/routing/route.ts'
import { workAtOnce } from '../../src/work/work.ts'
import { readChatError, readStream } from '../support/chat.ts'
import { failingWork } from '../support/failing-work.ts'
import { makeLimitedKey } from '../support/limits.ts'
import { serviceForThisTest } from '../support/service.ts'
import { chunkText, completion, json, pieces, type Script, sse, upstreamForThisTest } from '../support/upstream.ts'

const messages = [{ role: 'user', content: 'Hello' }]
const usage = { prompt_tokens: 22, completion_tokens: 10_000, total_tokens: 10_022 }
const usageChunk = JSON.stringify({ ...JSON.parse(chunkText({})), choices: [], usage })
const words = [chunkText({ role: 'assistant', content: 'Hm.' }), chunkText({}, 'stop')]
/** A short answer after long reasoning. A whole answer has its usage; a stream has its usage if that was requested. */
const thoughtful: Script = (response, call) => {
  if (call.body['stream'] !== true) return json(completion('Hm.', { usage }))(response, call)
  const isAsked = JSON.stringify(call.body['stream_options'])?.includes('"include_usage":true')
  return pieces([sse(...words, ...(isAsked ? [usageChunk] : []), '[DONE]')])(response, call)
}

async function serviceBefore(script: Script, more: Readonly<Record<string, unknown>> = {}) {
  const upstream = await upstreamForThisTest(script)
  const model = { adapter: 'openai', baseUrl: upstream.url, retries: 0, ...more }
  const service = await serviceForThisTest({}, { 'up/*': model })
  const ask = (body: Readonly<Record<string, unknown>> = {}, key = service.key) =>
    service.request('/chat/completions', {
      json: { model: 'up/a', messages, stream: true, ...body },
      headers: { authorization: key },
    })
  const options = () => upstream.calls.map(({ body }) => body['stream_options'])
  return { upstream, service, ask, options }
}

test('an account is limited by its upstreams’ token counts, streamed or not, with usage requested or not', async () => {
  const { service, ask } = await serviceBefore(thoughtful)
  const key = await makeLimitedKey(service.dataDirectory, { tokens_per_day: 30_100 })
  for (const body of [{}, { stream_options: { include_usage: true } }, { stream: false }]) {
    const response = await ask(body, key)
    await response.text()
    const record = await service.request(`/requests/${response.headers.get('x-request-id')}`)
    const { prompt_tokens, completion_tokens } = usage
    expect(await record.json()).toMatchObject({ prompt_tokens, completion_tokens, tokens_exact: true })
  }
  const refused = await ask({}, key)
  expect([refused.status, (await readChatError(refused)).code]).toEqual([429, 'rate_limit_exceeded'])
})

describe('the usage of streams is requested', () => {
  test('beside the caller’s stream options', async () => {
    const { ask, options } = await serviceBefore(thoughtful)
    for (const stream_options of [undefined, null, { include_usage: false }, { include_obfuscation: false }]) {
      await (await ask({ stream_options })).text()
    }
    await (await ask({ stream: false })).text()
    const asked = { include_usage: true }
    expect(options()).toEqual([asked, asked, asked, { include_obfuscation: false, ...asked }, undefined])
  })

  test('unless the operator switches it off; then callers who request usage get an estimate', async () => {
    const { ask, options } = await serviceBefore(thoughtful, { streamUsage: false })
    const { chunks } = await readStream(await ask({ stream_options: { include_usage: true } }))
    expect(chunks.at(-1)?.usage).toMatchObject({ completion_tokens: 2 })
    expect(options()).toEqual([undefined])
  })

  test('once from a model whose upstream refuses it, and then no more', async () => {
    const { ask, options } = await serviceBefore((response, call) =>
      'stream_options' in call.body && call.body['model'] === 'a'
        ? json({ error: { message: 'Unrecognized request argument: stream_options' } }, 400)(response, call)
        : thoughtful(response, call),
    )
    const asked = { include_usage: true }
    expect((await readStream(await ask())).isDone).toBe(true)
    expect(options()).toEqual([asked, undefined])
    expect((await readStream(await ask({ stream_options: asked }))).chunks.at(-1)?.usage).toBeDefined()
    expect(options()).toEqual([asked, undefined, undefined])
    await (await ask({ model: 'up/b' })).text()
    expect(options()).toEqual([asked, undefined, undefined, asked])
  })

  test('whatever options callers send and whatever error texts they cause', async () => {
    const { ask, options } = await serviceBefore(json({ error: { message: 'No stream_options like that.' } }, 400))
    const asked = { include_usage: true }
    expect((await ask({ stream_options: { wrong: true } })).status).toBe(400)
    expect(options()).toEqual([{ wrong: true, ...asked }])
    // The request fails without the options too, so later streams request usage again.
    expect((await ask()).status).toBe(400)
    expect((await ask()).status).toBe(400)
    expect(options().slice(1)).toEqual([asked, undefined, asked, undefined])
  })
})

describe('an upstream that cuts the prompt', () => {
  const prompt = (tokens: number) => [{ role: 'user' as const, content: 'word '.repeat(tokens) }]
  const image = { type: 'image_url' as const, image_url: { url: 'data:image/png;base64,AAAA' } }

  test.each([
    ['under half', prompt(4000), 1999, '1999/4008'],
    ['half', prompt(4000), 2004, null],
    ['all of it', prompt(4000), 4008, null],
    ['under half of short words', [{ role: 'user' as const, content: 'a '.repeat(5000) }], 2048, '2048/5008'],
    ['little of a short prompt', prompt(1000), 10, null],
    ['little of a prompt of more than 1,024 tokens', prompt(1024), 10, '10/1032'],
    ['little of pictures, whose tokens are unknown', [{ role: 'user' as const, content: [image, image] }], 90, null],
    ['0, which means that the upstream has not counted', prompt(4000), 0, null],
    ['no number', prompt(4000), undefined, null],
  ])('is detected by the tokens that it reports: %s', async (_what, sent, told, expected) => {
    expect((await truncationOf(told, { messages: sent }, workAtOnce())) ?? null).toBe(expected)
  })

  test('never makes a reply fail: if the tokens cannot be counted, there is no warning', async () => {
    const work = failingWork(new ApiError(503, 'overloaded', 'Too much.'))
    expect(await truncationOf(10, { messages: prompt(4000) }, work)).toBeNull()
  })

  test('is counted in the metrics, and recorded in the ledger', async () => {
    const { service, ask } = await serviceBefore(thoughtful)
    for (const stream of [true, false]) await (await ask({ messages: prompt(4000), stream })).text()
    const metrics = await (await service.request('/metrics')).text()
    expect(metrics).toContain('conservatory_upstream_truncated_total{gen_ai_request_model="up/*"} 2')
    const list: { data: object[] } = JSON.parse(await (await service.request('/requests')).text())
    expect(list.data).toMatchObject([{ upstream_truncated: '22/4008' }, { upstream_truncated: '22/4008' }])
  })
})

/** The text of an answer that is not written anew. */
function written(reply: Parameters<typeof withUsage>[0]): string {
  const pieces = withUsage(reply, usage)
  return Array.isArray(pieces) ? pieces.join('') : 'written anew'
}

test.each([
  ['{"a":1.0,"usage":{},"big":12345678901234567890}', '{"a":1.0,"usage":USAGE,"big":12345678901234567890}'],
  ['{"usage" : null }', '{"usage":USAGE }'],
  [
    '{"x":{"usage":{"n":1}},"say":"\\"usage\\":{}","usage":{"total_tokens":0,"d":{"e":0}}}',
    '{"x":{"usage":{"n":1}},"say":"\\"usage\\":{}","usage":USAGE}',
  ],
])('the estimate takes the place of an empty usage, and nothing else changes: %s', (sent, expected) => {
  const text = written({ completion: JSON.parse(sent), bytes: Buffer.from(sent) })
  expect(text).toBe(expected.replace('USAGE', JSON.stringify(usage)))
})

test.each([
  ['at its end', (long: string) => `{"say":"${long}","usage":{"n":0}}`],
  ['at its beginning', (long: string) => `{"usage":{"n":0},"say":"${long}"}`],
])('the empty usage of a long answer is replaced %s', (_where, answer) => {
  const sent = answer('é'.repeat(100_000))
  const text = written({ completion: JSON.parse(sent), bytes: Buffer.from(sent) })
  expect(text).toBe(sent.replace('{"n":0}', JSON.stringify(usage)))
})

test('the empty usage in the middle of a long answer is not searched for: the answer is written anew', () => {
  const long = 'a'.repeat(70_000)
  const sent = `{"choices":[],"say":"${long}","usage":{"n":0},"more":"${long}"}`
  const answer = JSON.parse(sent)
  expect(withUsage({ completion: answer, bytes: Buffer.from(sent) }, usage)).toEqual({ ...answer, usage })
})

test('an empty usage behind many others is not searched for: the answer is written anew', () => {
  const bytes = (others: number) => Buffer.from(`[${'"usage":{"b":0},'.repeat(others)}"usage":{}]`)
  const answer = JSON.parse(JSON.stringify(completion('Hm.', { usage: {} })))
  expect(written({ completion: answer, bytes: bytes(99) })).toMatch(/10022}\]$/)
  expect(withUsage({ completion: answer, bytes: bytes(900_000) }, usage)).toEqual({ ...answer, usage })
})

test('a response has the model and the time of the first chunk that has them', async () => {
  const azure = '{"id":"","choices":[],"created":0,"model":"","object":"","prompt_filter_results":[]}'
  const { service } = await serviceBefore(pieces([sse(azure, ...words, usageChunk, '[DONE]')]))
  const response = await service.request('/responses', { json: { model: 'up/a', input: 'Hello', stream: true } })
  const [created] = (await response.text()).split('\n\n')
  expect(JSON.parse(created?.split('data: ')[1] ?? '')).toMatchObject({
    type: 'response.created',
    response: { model: 'upstream-model-2026', created_at: 1700000000 },
  })
})

test('x-ignored-params is about the model that answered', async () => {
  const reply = { completion: JSON.parse(JSON.stringify(completion('Hello'))) }
  const candidate = (name: string, ignored: string, answers: boolean) => {
    const model: Model = {
      ignoredParameters: new Set(['logit_bias']),
      async complete({ onIgnored }) {
        onIgnored?.(ignored)
        if (!answers) throw new ApiError(502, 'upstream_error', 'It failed.')
        return reply
      },
      async *stream() {},
    }
    return new Candidate({ name, upstreamId: name, retries: 0 }, model, null)
  }
  const route = new Route(
    'list',
    [candidate('one', 'top_p', false), candidate('two', 'seed', true)],
    new InFlightRequests(),
  )
  const persona = { name: null, card: null, userName: 'User' }
  const body = { model: 'list', messages: [{ role: 'user' as const, content: 'Hello' }], logit_bias: {} }
  const composer = new RequestComposer(
    body,
    persona,
    { settings: { systemPrompt: 'S' }, worldBooks: [] },
    workAtOnce(),
    {},
    {
      ignored: ['store'],
      nameOf: (name) => name,
    },
  )
  const answer = await route.complete({ requestFor: composer.requestFor, signal: new AbortController().signal })
  expect(composer.headersFor(answer.candidate)).toEqual({
    'x-model': 'two',
    'x-ignored-params': 'store,seed,logit_bias',
  })
})
