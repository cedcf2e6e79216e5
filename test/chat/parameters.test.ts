import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { readChatError } from '../support/chat.ts'
import { serviceForThisTest, startTestService, type TestService } from '../support/service.ts'
import { completion, json, pieces, type ScriptedUpstream, startUpstream, streamOf } from '../support/upstream.ts'

/**
 * The settings of one model, the parameters that a caller sends, and the parameters that the upstream gets. `ignored` is the
 * value of the reply header `x-ignored-params`.
 */
interface Scenario {
  readonly what: string
  readonly settings: Readonly<Record<string, unknown>>
  readonly sent: Readonly<Record<string, unknown>>
  readonly gets: Readonly<Record<string, unknown>>
  readonly ignored?: string
}
const scenarios: readonly Scenario[] = [
  {
    what: 'params.set takes precedence over the sent value and the default',
    settings: { defaults: { top_k: 1, seed: 5 }, params: { set: { top_k: 40, reasoning: { effort: 'low' } } } },
    sent: { top_k: 7 },
    gets: { top_k: 40, seed: 5, reasoning: { effort: 'low' } },
  },
  {
    what: 'rename changes the names of sent parameters and of defaults',
    settings: {
      defaults: { top_k: 3 },
      params: { rename: { max_tokens: 'max_completion_tokens', top_k: 'k' } },
    },
    sent: { max_tokens: 50 },
    gets: { max_completion_tokens: 50, k: 3 },
  },
  {
    what: 'a parameter is left out, and named as ignored, if its new name is sent too',
    settings: { params: { rename: { max_tokens: 'max_completion_tokens' } } },
    sent: { max_tokens: 50, max_completion_tokens: 20 },
    gets: { max_completion_tokens: 20 },
    ignored: 'max_tokens',
  },
  {
    what: 'a parameter with null counts as not sent',
    settings: { params: { rename: { a: 'b' }, drop: ['c'], cap: { d: 1 } } },
    sent: { a: null, c: null, d: null },
    gets: { d: null },
  },
  {
    what: 'two names may change places',
    settings: { params: { rename: { a: 'b', b: 'a' } } },
    sent: { a: 1, b: 2 },
    gets: { a: 2, b: 1 },
  },
  {
    what: 'caps lower higher values and -1, and leave lower values and values that are no number',
    settings: { params: { cap: { max_tokens: 100, temperature: 1, top_k: 5, effort: 3 } } },
    sent: { max_tokens: -1, temperature: 1.5, top_k: 5, effort: 'high' },
    gets: { max_tokens: 100, temperature: 1, top_k: 5, effort: 'high' },
  },
  {
    what: 'caps apply to numbers that are sent as text, since upstreams read them as numbers, and to no other text',
    settings: { params: { cap: { best_of: 5, max_new_tokens: 100, candidates: 9, effort: 3, tier: 3, empty: 3 } } },
    sent: { best_of: '100', max_new_tokens: '-1', candidates: ' 1_0.0 ', effort: 'high', tier: '2', empty: '' },
    gets: { best_of: 5, max_new_tokens: 100, candidates: 9, effort: 'high', tier: '2', empty: '' },
  },
  {
    what: 'a text that is too long for a number exceeds every cap',
    settings: { params: { cap: { best_of: 5 } } },
    sent: { best_of: '9'.padStart(1001, '0') },
    gets: { best_of: 5 },
  },
  {
    what: 'caps apply to the new names, and to params.set',
    settings: { params: { set: { k: 9 }, rename: { max_tokens: 'limit' }, cap: { limit: 10, k: 5 } } },
    sent: { max_tokens: 50 },
    gets: { limit: 10, k: 5 },
  },
  {
    what: 'a dropped parameter is named as ignored if the caller sent it, by the name that the caller sent',
    settings: {
      defaults: { seed: 1 },
      params: { set: { top_k: 1 }, rename: { foo: 'bar' }, drop: ['top_p', 'bar', 'seed', 'top_k', 'logit_bias'] },
    },
    sent: { top_p: 0.5, foo: 1, logit_bias: {} },
    gets: {},
    ignored: 'top_p,foo,logit_bias',
  },
  {
    what: 'a parameter that callers may not send is not sent under a new name either',
    settings: { params: { rename: { api_base: 'endpoint' } } },
    sent: { api_base: 'https://a.example' },
    gets: {},
    ignored: 'api_base',
  },
]

let upstream: ScriptedUpstream
let service: TestService
const messages = [{ role: 'user', content: 'Hello' }]

beforeAll(async () => {
  upstream = await startUpstream()
  const openAi = { adapter: 'openai', baseUrl: upstream.url, retries: 0, model: 'upstream-id' }
  const models = Object.fromEntries(scenarios.map(({ settings }, index) => [`m${index}`, { ...openAi, ...settings }]))
  service = await startTestService(
    {},
    {
      understudy: { adapter: 'understudy', params: { set: { max_tokens: 2 }, drop: ['seed'] } },
      ...models,
    },
  )
})

beforeEach(() => {
  upstream.calls.length = 0
})

afterAll(async () => {
  await service?.close()
  await upstream?.close()
})

const rows = scenarios.flatMap((scenario, index) =>
  [false, true].map((stream) => ({ ...scenario, model: `m${index}`, stream })),
)
test.each(rows)('$what (stream: $stream)', async ({ model, stream, sent, gets, ignored = null }) => {
  upstream.answer(stream ? pieces(streamOf('Hello.')) : json(completion('Hello.')))
  const response = await service.request('/chat/completions', { json: { model, messages, stream, ...sent } })
  expect(response.status).toBe(200)
  await response.text()
  expect(response.headers.get('x-ignored-params')).toBe(ignored)
  expect(upstream.calls.map(({ body }) => body)).toMatchObject([{ model: 'upstream-id', messages, ...gets }])
  const others = ['model', 'messages', 'stream', 'stream_options']
  expect(
    Object.keys(upstream.calls[0]?.body ?? {})
      .filter((name) => !others.includes(name))
      .toSorted(),
  ).toEqual(Object.keys(gets).toSorted())
})

describe('models of every kind', () => {
  test('have their parameters changed: the understudy', async () => {
    const json = { model: 'understudy', messages, seed: 3 }
    const response = await service.request('/chat/completions', { json })
    expect(response.headers.get('x-ignored-params')).toBe('seed')
    expect(await response.json()).toMatchObject({ usage: { completion_tokens: 2 } })
  })
})

test('limits reserve the maximum of a reply, even if the upstream has another name for it', async () => {
  const params = { rename: { max_tokens: 'num_predict' }, cap: { num_predict: 2000 } }
  const long = { adapter: 'openai', baseUrl: upstream.url, params }
  const limited = await serviceForThisTest({ LIMITS: 'tokens_per_minute=900' }, { long })
  upstream.answer(json(completion('Hello.')))
  const ask = (max_tokens: number) =>
    limited.request('/chat/completions', { json: { model: 'long', messages, max_tokens } })
  expect((await readChatError(await ask(1500))).message).toMatch(/^The request may take 1506 tokens/)
  // The cap limits the requested maximum.
  expect((await readChatError(await ask(9000))).message).toMatch(/^The request may take 2006 tokens/)
  expect((await ask(100)).status).toBe(200)
})
