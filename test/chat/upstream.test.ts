import { once } from 'node:events'
import { createServer as createNetServer, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import pino from 'pino'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { Guard } from '../../src/access/guard.ts'
import { createServer, registerService } from '../../src/app.ts'
import { CharacterLibrary } from '../../src/characters/library/library.ts'
import { builtInSystemPrompt } from '../../src/characters/prompt/settings.ts'
import { readConfig } from '../../src/config.ts'
import { Metrics } from '../../src/metrics/metrics.ts'
import { defaultModels } from '../../src/models/configuration/configuration.ts'
import { ModelRegistry } from '../../src/models/registry.ts'
import { openSqliteStores } from '../../src/stores/stores.ts'
import { Visits } from '../../src/usage/visit.ts'
import { finishReasons, parseStream, readChatError, readStream, textOfStream } from '../support/chat.ts'
import { TestClock } from '../support/clock.ts'
import { onceAsked, serviceForThisTest, startTestService, type TestService } from '../support/service.ts'
import {
  chunkText,
  completion,
  json,
  pieces,
  type Script,
  type ScriptedUpstream,
  startUpstream,
  streamOf,
  type UpstreamCall,
  upstreamForThisTest,
} from '../support/upstream.ts'

/** Not in the form of any service's keys, so that only knowing it helps to hide it. */
const secret = 'the+canary/of=tests'
let upstream: ScriptedUpstream
let service: TestService
/** Nobody lets it go on: no machine is too slow for a time limit. */
const clock = new TestClock()

beforeAll(async () => {
  upstream = await startUpstream()
  service = await startTestService({}, onceAsked(upstream.url, secret), { clock })
})

beforeEach(() => {
  upstream.calls.length = 0
  upstream.answer(json(completion('Hello there.')))
})

afterAll(async () => {
  await service?.close()
  await upstream?.close()
})

const messages = [{ role: 'user', content: 'Hello' }]

function post(body: Readonly<Record<string, unknown>> = {}, signal?: AbortSignal): Promise<Response> {
  const sent = { model: 'gpt-test', messages, ...body }
  return service.request('/chat/completions', { json: sent, ...(signal ? { signal } : {}) })
}

function onlyCall(): UpstreamCall {
  expect(upstream.calls).toHaveLength(1)
  const [call] = upstream.calls
  if (!call) throw new Error('the upstream was not called')
  return call
}

/** Resolves when what was on its way between the service and its upstream has come: this answer came after it. */
async function meanwhile(): Promise<void> {
  await (await post({ model: 'understudy' })).text()
}

async function untilCalled(): Promise<UpstreamCall> {
  await upstream.called(1)
  return onlyCall()
}

/** A stream's events as they are sent: each with its blank line. */
const sse = (...events: readonly string[]): string => events.map((event) => `data: ${event}\n\n`).join('')

describe('what the upstream is asked', () => {
  test.each([false, true])('has its own key and only what concerns it (stream: %s)', async (stream) => {
    if (stream) upstream.answer(pieces(streamOf('Hello there.')))
    const response = await service.request('/v1/chat/completions', {
      json: { model: 'gpt-test', messages, stream, character: 'Nobody', user_name: 'Ada' },
      headers: { cookie: 'a=b', 'x-forwarded-for': '10.0.0.1', 'openai-organization': 'org', 'user-agent': 'agent' },
    })
    expect(response.status).toBe(200)
    expect(response.headers.get('x-model')).toBe('gpt-test')
    expect(response.headers.get('x-character')).toBe('Nobody')
    await response.text()

    const call = onlyCall()
    expect(call.path).toBe('/v1/chat/completions')
    expect(call.headers.authorization).toBe(`Bearer ${secret}`)
    expect(call.headers['content-type']).toBe('application/json')
    expect(JSON.stringify([call.headers, call.body])).not.toContain(service.key)
    expect(Object.keys(call.headers).sort()).toEqual(
      ['authorization', 'connection', 'content-length', 'content-type', 'host'].filter((name) => name in call.headers),
    )
    expect(call.body).toStrictEqual({
      model: 'gpt-test',
      messages: [
        { role: 'system', content: builtInSystemPrompt.replaceAll('{{char}}', 'Nobody').replaceAll('{{user}}', 'Ada') },
        ...messages,
      ],
      stream,
    })
  })

  test('has no key when there is none', async () => {
    const open = await serviceForThisTest({ OPENAI_BASE_URL: `${upstream.url}/` })
    expect((await open.request('/chat/completions', { json: { model: 'm', messages } })).status).toBe(200)
    expect(onlyCall().path).toBe('/v1/chat/completions')
    expect(onlyCall().headers).not.toHaveProperty('authorization')
  })

  test("has the character's system prompt, names put in, before the messages", async () => {
    const own = [
      { role: 'system', content: 'Be brief, {{char}}.' },
      { role: 'user', content: '{{user}}: hello' },
    ]
    await post({ character: 'fern', user_name: 'Ada $& {{char}}', messages: own })
    const sent: unknown = onlyCall().body['messages']
    if (!Array.isArray(sent)) throw new Error('no messages')
    // Main prompt, the caller's system message, the character, examples, the greeting, the caller's question.
    expect([sent[1], sent.at(-1)]).toEqual(own)
    expect(sent.at(-2).role).toBe('assistant')
    expect(sent.at(-2).content).toContain("You'll be Ada $& {{char}};")
    expect(sent[0].role).toBe('system')
    expect(sent[2].role).toBe('system')
    expect(sent[2].content).toContain('Fern is the botanist who keeps the Conservatory.')
    expect(sent[2].content).toContain('She asks Ada $& {{char}} one good question before she advises')
    expect(sent[2].content).toContain('Observant, unhurried, dry-humoured')
    expect(sent[2].content).toContain('A wet afternoon in the Conservatory.')
    expect(sent[3]).toEqual({ role: 'system', content: '[Example Chat]' })
    expect(new Set(sent.slice(3, -2).map(({ role, name }) => `${role} ${name}`))).toEqual(
      new Set(['system undefined', 'system example_user', 'system example_assistant']),
    )
    const composed = JSON.stringify(sent.slice(0, -2))
    expect(composed).not.toMatch(/\{\{user\}\}|<START>|Mind the hose/)
    expect(composed.replaceAll('Ada $& {{char}}', '').replaceAll('Be brief, {{char}}.', '')).not.toContain('{{')
  })

  test('has the messages alone without a character', async () => {
    for (const character of [undefined, null, '', '  ']) {
      await post({ character })
      expect(upstream.calls.at(-1)?.body).toStrictEqual({ model: 'gpt-test', messages })
    }
  })

  test('has every parameter untouched, those that nobody here knows too', async () => {
    const more = {
      temperature: 1.25,
      n: 2,
      seed: 9007199254740991,
      stop: ['a', '\n'],
      logit_bias: { '50256': -100 },
      max_tokens: null,
      tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object', x: [1, null] }, y: 1 }, z: 2 }],
      reasoning: { effort: 'low', nested: { deep: [[], {}] } },
      provider_thing: 'on',
      '': 0,
      constructor: 'x',
      user: 'u',
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'a', cache_control: { type: 'ephemeral' } }], mood: 5 },
      ],
    }
    const response = await post(more)
    expect(response.status).toBe(200)
    expect(response.headers.get('x-ignored-params')).toBeNull()
    expect(onlyCall().body).toStrictEqual({ model: 'gpt-test', ...more })
  })

  test('is not asked for the understudy', async () => {
    expect((await post({ model: 'understudy' })).status).toBe(200)
    expect(upstream.calls).toEqual([])
  })

  test.each(['org/model:free', '模型 🌵', 'a b\r\nc'])('goes by the id %j, which x-model encodes', async (model) => {
    const response = await post({ model })
    expect(response.status).toBe(200)
    expect(response.headers.get('x-model')).toBe(encodeURIComponent(model))
    expect(onlyCall().body['model']).toBe(model)
  })

  test.each([false, true])('is not asked for a model whose id is half a character (stream: %s)', async (stream) => {
    const response = await post({ model: 'gpt-\ud800', stream })
    expect(response.status).toBe(400)
    expect(await readChatError(response)).toMatchObject({ type: 'invalid_request_error', param: 'model' })
    expect(upstream.calls).toEqual([])
  })

  test('is not asked for what the schema refuses', async () => {
    expect((await post({ n: 1e6 })).status).toBe(400)
    expect((await post({ messages: [] })).status).toBe(400)
    expect(upstream.calls).toEqual([])
  })
})

describe('models', () => {
  test('are the understudy, and whatever else the upstream may have', async () => {
    const list = await service.request('/models')
    expect(await list.json()).toMatchObject({ data: [{ id: 'understudy', owned_by: 'conservatory' }] })
    for (const id of ['understudy', 'org/model:free', '🌵']) {
      const one = await service.request(`/models/${encodeURIComponent(id)}`)
      expect(one.status).toBe(200)
      const owned_by = id === 'understudy' ? 'conservatory' : 'upstream'
      expect(await one.json()).toStrictEqual({ id, object: 'model', created: expect.any(Number), owned_by })
    }
    expect(upstream.calls).toEqual([])
  })

  test.each(['/models/', '/v1/models/'])('GET %s, which names none, is a 404', async (path) => {
    const response = await service.request(path)
    expect(response.status).toBe(404)
    expect(await readChatError(response)).toMatchObject({ code: 'unknown_route', param: null })
  })
})

describe('the reply', () => {
  const odd = `{ "id" : "x", "object":"chat.completion","created":1.0e9, "model":"other-model-2026",\r
    "choices":[{"index":0,"message":{"role":"assistant","content":"H\\u00e9 \\ud83c\\udf35 é 🌵","reasoning":"r"},
    "finish_reason":"stop"}], "big":12345678901234567890, "usage":{"prompt_tokens":1}, "extra":null }\n`

  test('is what the upstream sent, byte for byte', async () => {
    upstream.answer((response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'x-up': '1' }).end(odd)
    })
    const response = await post()
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(response.headers.get('x-up')).toBeNull()
    const text = await response.text()
    expect(text).toBe(odd)
    expect(JSON.parse(text).model).toBe('other-model-2026')
  })

  test('is what the upstream sent, byte for byte, when its characters come in halves', async () => {
    const bytes = Buffer.from(odd)
    upstream.answer(async (response) => {
      response.writeHead(200)
      for (const byte of bytes) response.write(Buffer.of(byte))
      response.end()
    })
    expect(await (await post()).text()).toBe(odd)
  })

  test('streams the events as the upstream sent them', async () => {
    const events = [
      '{ "id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant"}}],"big":12345678901234567890}',
      '{"model":"other-model-2026","choices":[{"index":0,"delta":{"content":"\\u00e9 é 🌵","reasoning_content":"r"}}], "x":1.0 }',
      '{"choices":[{"index":0,"finish_reason":"stop"}]}',
    ]
    upstream.answer(pieces([sse(...events, '[DONE]')]))
    const streamed = await readStream(await post({ stream: true }))
    expect(streamed.data).toEqual([...events, '[DONE]'])
  })

  test('streams an event of several lines as one event', async () => {
    const event = '{"choices":[\n{"index":0,"delta":{"content":"a"},\n"finish_reason":"stop"}]}'
    upstream.answer(pieces([`data: ${event.replaceAll('\n', '\ndata: ')}\n\ndata: [DONE]\n\n`]))
    const streamed = await readStream(await post({ stream: true }))
    expect(streamed.data).toEqual([event, '[DONE]'])
  })

  test('streams what came before all of it has come', async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    upstream.answer(async (response) => {
      response.write(sse(chunkText({ content: 'early' })))
      await promise
      response.end(sse(chunkText({ content: ' late' }, 'stop'), '[DONE]'))
    })
    const response = await post({ stream: true })
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
    const early = (await reader?.read())?.value ?? ''
    expect(early).toContain('early')
    resolve()
    let rest = ''
    for (let step = await reader?.read(); step && !step.done; step = await reader?.read()) rest += step.value
    expect(textOfStream(parseStream(early + rest))).toBe('early late')
  })

  test('asks over one connection after another stream has ended', async () => {
    const ports = new Set<number | undefined>()
    let end = () => {}
    upstream.answer((response) => {
      ports.add(response.socket?.remotePort)
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(streamOf('one two').join(''))
      end = () => void response.end()
    })
    for (let round = 0; round < 5; round++) {
      expect((await readStream(await post({ stream: true }))).isDone).toBe(true)
      end()
      await meanwhile()
    }
    expect(ports.size).toBe(1)
  })

  const usageChunk = JSON.stringify({ choices: [], usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 } })

  test('failure mode 10: has the usage chunk exactly when it was asked for, whatever the upstream sends', async () => {
    upstream.answer(pieces([sse(chunkText({ content: 'a' }), chunkText({}, 'stop'), usageChunk, '[DONE]')]))
    const asked = await readStream(await post({ stream: true, stream_options: { include_usage: true } }))
    expect(asked.data.filter((data) => data === usageChunk)).toHaveLength(1)
    expect(asked.data.at(-1)).toBe('[DONE]')
    expect(asked.data.at(-2)).toBe(usageChunk)
    const unasked = await readStream(await post({ stream: true }))
    expect(unasked.data).not.toContain(usageChunk)
    expect(unasked.data).toHaveLength(3)
  })
})

describe('a refusal whose body is not to be had', () => {
  test('is what its status says when the body is cut', async () => {
    upstream.answer(async (response) => {
      response.writeHead(429, { 'content-type': 'application/json', 'retry-after': '30', 'content-length': '100' })
      response.write('{"error": {')
      await meanwhile()
      response.socket?.resetAndDestroy()
    })
    const response = await post()
    expect([response.status, response.headers.get('retry-after')]).toEqual([429, '30'])
    expect((await readChatError(response)).code).toBe('rate_limit_exceeded')
  })

  test('is what its status says when the body does not end', async () => {
    upstream.answer((response) => void response.writeHead(500, { 'content-type': 'text/html' }).write('<p>'))
    const response = await post()
    expect([response.status, (await readChatError(response)).code]).toEqual([502, 'upstream_error'])
  })
})

describe('an upstream that says in its own way why it ended', () => {
  const odd = [{ type: 'stop' }, 1, true, 'eos', 'a\0b', '\ud800', 'the user said: my secret is 42']

  test.each(odd)('whole, %j: its words pass, and none of them goes on record', async (reason) => {
    const choice = { index: 0, message: { role: 'assistant', content: '', refusal: null }, finish_reason: reason }
    const sent = completion('', { choices: [choice], usage: undefined })
    upstream.answer(json(sent))
    const response = await post()
    expect([response.status, await response.text()]).toEqual([200, JSON.stringify(sent)])
    await expectRecorded(response)
  })

  test.each(odd)('streamed, %j: the same', async (reason) => {
    const end = JSON.stringify({
      ...JSON.parse(chunkText({})),
      choices: [{ index: 0, delta: {}, finish_reason: reason }],
    })
    upstream.answer(pieces([`data: ${chunkText({ content: 'Hello' })}\n\n`, `data: ${end}\n\ndata: [DONE]\n\n`]))
    const response = await post({ stream: true })
    expect(await response.text()).toContain(`data: ${end}\n\ndata: [DONE]`)
    await expectRecorded(response)
  })

  async function expectRecorded(response: Response): Promise<void> {
    const record = await service.request(`/requests/${response.headers.get('x-request-id')}`)
    expect([record.status, await record.json()]).toEqual([200, expect.objectContaining({ state: 'stop' })])
  }
})

describe('failure mode 9: events split across packets', () => {
  const text = 'Ü 🌵!'
  // Short, since there is a request to each byte.
  const events = [
    `{"id":"c","choices":[{"index":0,"delta":{"content":${JSON.stringify(text)}}}]}`,
    '{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
  ]
  const lines = [...events, '[DONE]'].map((event) => `data: ${event}`)
  const forms: readonly (readonly [string, string])[] = [
    ['LF', `${lines.join('\n\n')}\n\n`],
    ['CRLF', `${lines.join('\r\n\r\n')}\r\n\r\n`],
    ['CR', `${lines.join('\r\r')}\r\r`],
    ['LF and no blank after the colon', `${lines.join('\n\n').replaceAll('data: ', 'data:')}\n\n`],
    ['comments, ids and types between', `:c\n\nid: 1\nevent: message\nretry: 5\n${lines.join('\n\n: ping\n\n')}\n\n`],
    ['a byte order mark', `\uFEFF${lines.join('\n\n')}\n\n`],
    ['LF, and a last event without its blank line', lines.join('\n\n')],
    ['CRLF, and a last event without its blank line', lines.join('\r\n\r\n')],
    ['LF, and no [DONE]', `${lines.slice(0, -1).join('\n\n')}\n\n`],
    ['LF, no [DONE], and a last event without its blank line', lines.slice(0, -1).join('\n\n')],
  ]
  test.each(forms)('arrive whole, wherever they were split: %s', async (_what, stream) => {
    const bytes = Buffer.from(stream)
    upstream.answer(async (response, call) => {
      const offset = Number(call.body['offset'])
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(bytes.subarray(0, offset))
      await wait(1)
      response.end(bytes.subarray(offset))
    })
    await eachOffset(bytes.length, async (offset) => {
      const response = await post({ stream: true, offset })
      expect([offset, response.status]).toEqual([offset, 200])
      const streamed = await readStream(response)
      expect([offset, ...streamed.data]).toEqual([offset, ...events, '[DONE]'])
    })
  })

  test('arrive whole when every byte comes alone', async () => {
    for (const [, stream] of forms) {
      upstream.answer(pieces(Array.from(Buffer.from(stream), (byte) => Uint8Array.of(byte))))
      expect((await readStream(await post({ stream: true }))).data).toEqual([...events, '[DONE]'])
    }
  })
})

/** Calls for every offset into so many bytes, 24 at once. */
async function eachOffset(length: number, action: (offset: number) => Promise<void>): Promise<void> {
  const offsets = Array.from({ length: length + 1 }, (_, offset) => offset).values()
  const worker = async () => {
    for (const offset of offsets) await action(offset)
  }
  await Promise.all(Array.from({ length: 24 }, worker))
}

describe('an upstream that fails before its first event is a real HTTP error', () => {
  const url = 'http://10.1.2.3:8080/v1?key=abc'
  const html = '<html><body><h1>Bad Gateway</h1>nginx</body></html>'
  const page =
    (status: number): Script =>
    (response) => {
      response.writeHead(status, { 'content-type': 'text/html' }).end(html)
    }
  const said = (status: number, message: string, more: Record<string, string> = {}): Script =>
    json({ error: { message, type: 'x', param: null, code: null, ...more } }, status)
  const text =
    (body: string, status = 200): Script =>
    (response) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(body)
    }

  interface Scenario {
    readonly what: string
    readonly script: Script
    readonly status: number
    readonly code: string
    readonly message?: RegExp
    readonly param?: string
  }
  const canary = `Wrong: ${secret}, or key sk-other-0123456789abcdefghijklmnop, at ${url} <b>now</b>`
  const scenarios: readonly Scenario[] = [
    { what: '401', script: said(401, canary), status: 502, code: 'upstream_auth_error', message: /operator/ },
    { what: '403', script: said(403, canary), status: 502, code: 'upstream_auth_error' },
    { what: '429', script: said(429, canary), status: 429, code: 'rate_limit_exceeded' },
    {
      what: '400',
      script: said(400, `Bad ${canary}`, { code: 'context_length_exceeded', param: 'messages' }),
      status: 400,
      code: 'context_length_exceeded',
      message: /^Bad Wrong: …, or …/,
      param: 'messages',
    },
    {
      what: '400 with an odd code and param',
      script: said(400, 'No.', { code: `<b>${secret}`, param: url }),
      status: 400,
      code: 'upstream_refused',
    },
    { what: '400 whose error is a text', script: json({ error: canary }, 400), status: 400, code: 'upstream_refused' },
    { what: '400 with HTML', script: page(400), status: 400, code: 'upstream_refused' },
    {
      what: '404',
      script: said(404, `No model at ${url}`, { code: 'model_not_found' }),
      status: 404,
      code: 'model_not_found',
    },
    { what: '404 with HTML', script: page(404), status: 404, code: 'upstream_refused' },
    { what: '413', script: page(413), status: 413, code: 'upstream_refused' },
    { what: '422', script: said(422, 'No.'), status: 422, code: 'upstream_refused' },
    { what: '405', script: page(405), status: 502, code: 'upstream_error' },
    { what: '500', script: said(500, canary), status: 502, code: 'upstream_error' },
    { what: '502 with HTML', script: page(502), status: 502, code: 'upstream_error' },
    { what: '503', script: said(503, canary), status: 502, code: 'upstream_error' },
    { what: '204', script: (response) => void response.writeHead(204).end(), status: 502, code: 'upstream_error' },
    {
      what: '302',
      script: (response) => void response.writeHead(302, { location: `${upstream.url}/elsewhere` }).end(),
      status: 502,
      code: 'upstream_error',
    },
    { what: 'an empty 200', script: text(''), status: 502, code: 'upstream_error' },
    { what: 'a 200 with HTML', script: page(200), status: 502, code: 'upstream_error' },
    { what: 'a 200 with a scalar', script: text('"hello"'), status: 502, code: 'upstream_error' },
    { what: 'a 200 without choices', script: text('{"choices":null}'), status: 502, code: 'upstream_error' },
    { what: 'a 200 with odd choices', script: text('{"choices":[null]}'), status: 502, code: 'upstream_error' },
    { what: 'an error inside a 200', script: said(200, canary), status: 502, code: 'upstream_error' },
    { what: 'a 200 that is cut', script: pieces(['{"choi'], 'cut'), status: 502, code: 'upstream_error' },
    { what: 'a 200 that ends too early', script: pieces(['{"choi']), status: 502, code: 'upstream_error' },
    {
      what: 'a connection that is cut',
      script: (response) => void response.socket?.resetAndDestroy(),
      status: 502,
      code: 'upstream_unreachable',
    },
    {
      what: 'no HTTP',
      script: (response) => void response.socket?.end('SSH-2.0-OpenSSH\r\n'),
      status: 502,
      code: 'upstream_unreachable',
    },
  ]
  const streamed: readonly Scenario[] = [
    {
      what: 'an error as the first event',
      script: pieces([sse(`{"error":{"message":"${secret}"}}`, '[DONE]')]),
      status: 502,
      code: 'upstream_error',
    },
    {
      what: 'an error as the first event, after comments',
      script: pieces([`: hi\n\n${sse('{"error":"no"}')}`]),
      status: 502,
      code: 'upstream_error',
    },
    {
      what: 'a first event that is no JSON',
      script: pieces([sse('hello', '[DONE]')]),
      status: 502,
      code: 'upstream_error',
    },
    { what: 'a first event without choices', script: pieces([sse('{"id":"x"}')]), status: 502, code: 'upstream_error' },
    { what: 'an end before any event', script: pieces([]), status: 502, code: 'upstream_error' },
    { what: 'a [DONE] before any event', script: pieces([sse('[DONE]')]), status: 502, code: 'upstream_error' },
    { what: 'comments alone', script: pieces([': one\n\n', ': two\n\n']), status: 502, code: 'upstream_error' },
    {
      what: 'a cut before any event',
      script: pieces([': one\n\n', 'data: {'], 'cut'),
      status: 502,
      code: 'upstream_error',
    },
  ]
  const rows = [
    ...scenarios.map((scenario) => ({ ...scenario, stream: false })),
    ...[...scenarios, ...streamed].map((scenario) => ({ ...scenario, stream: true })),
  ]
  test.each(rows)('$what (stream: $stream)', async ({ script, stream, status, code, message, param }) => {
    upstream.answer(script)
    const response = await post({ stream })
    expect(response.status).toBe(status)
    expect(response.headers.get('content-type')).toMatch(/^application\/json/)
    const body = await response.clone().text()
    const error = await readChatError(response)
    expect(error.code).toBe(code)
    expect(error.param).toBe(param ?? null)
    if (message) expect(error.message).toMatch(message)
    for (const forbidden of [
      secret,
      'canary',
      'sk-',
      'other-',
      '10.1.2.3',
      'key=abc',
      '127.0.0.1',
      'http',
      '<',
      '>',
      'nginx',
    ]) {
      expect(body).not.toContain(forbidden)
    }
    expect(upstream.calls.map(({ path }) => path)).toEqual(['/v1/chat/completions'])
  })

  test.each([false, true])('a 429 keeps its Retry-After (stream: %s)', async (stream) => {
    upstream.answer(json({ error: { message: secret } }, 429, { 'retry-after': '17' }))
    const response = await post({ stream })
    expect([response.status, response.headers.get('retry-after')]).toEqual([429, '17'])
    expect((await readChatError(response)).type).toBe('rate_limit_error')
  })

  test.each([false, true])('a connection that is refused is a 502 (stream: %s)', async (stream) => {
    const gone = await startUpstream()
    await gone.close()
    const alone = await serviceForThisTest({}, onceAsked(gone.url))
    const response = await alone.request('/chat/completions', { json: { model: 'm', messages, stream } })
    expect(response.status).toBe(502)
    const error = await readChatError(response)
    expect(error).toMatchObject({ type: 'server_error', code: 'upstream_unreachable' })
    expect(error.message).not.toMatch(/127\.0\.0\.1|ECONN|http|\d{4}/)
  })
})

describe('an upstream that fails after its first event ends the stream with an error event, and no [DONE]', () => {
  const started = [
    chunkText({ role: 'assistant', content: '' }),
    chunkText({ content: 'One ' }),
    chunkText({ content: 'two' }),
  ]
  const finishOf = (index: number) => JSON.stringify({ choices: [{ index, delta: {}, finish_reason: 'stop' }] })
  const begunOnly = JSON.stringify({ choices: [{ index: 1, delta: { content: 'a' } }] })
  interface Failure {
    readonly what: string
    readonly script: Script
    readonly code: string
    readonly text?: string
    readonly n?: number
  }
  const failures: readonly Failure[] = [
    { what: 'a cut connection', script: pieces([sse(...started)], 'cut'), code: 'upstream_error' },
    {
      what: 'a cut connection inside an event',
      script: pieces([sse(...started), 'data: {"choi'], 'cut'),
      code: 'upstream_error',
    },
    { what: 'an end without a finish', script: pieces([sse(...started)]), code: 'upstream_error' },
    { what: 'an end inside an event', script: pieces([sse(...started), 'data: {"choi']), code: 'upstream_error' },
    {
      what: 'an error event',
      script: pieces([sse(...started, `{"error":{"message":"${secret}"}}`)]),
      code: 'upstream_error',
    },
    {
      what: 'an error event and [DONE]',
      script: pieces([sse(...started, '{"error":{"message":"x"}}', '[DONE]')]),
      code: 'upstream_error',
    },
    { what: 'garbage', script: pieces([sse(...started, '<html>')]), code: 'upstream_error' },
    {
      what: 'an end when only one of two choices has finished',
      script: pieces([sse(finishOf(0), begunOnly)]),
      code: 'upstream_error',
      text: '',
      n: 2,
    },
    {
      what: 'an end when one of two choices has not begun',
      script: pieces([sse(...started, finishOf(0))]),
      code: 'upstream_error',
      n: 2,
    },
  ]
  test.each(failures)('failure mode 5: $what', async ({ script, code, text = 'One two', n = 1 }) => {
    upstream.answer(script)
    const response = await post({ stream: true, n })
    expect(response.status).toBe(200)
    const streamed = await readStream(response)
    expect(streamed.errors).toHaveLength(1)
    expect(streamed.errors[0]).toEqual({
      error: { message: expect.stringMatching(/^[A-Z].+\.$/), type: 'server_error', param: null, code },
    })
    expect(JSON.parse(streamed.data.at(-1) ?? '')).toEqual(streamed.errors[0])
    expect(streamed.data).not.toContain('[DONE]')
    expect(JSON.stringify(streamed)).not.toContain(secret)
    expect(textOfStream(streamed)).toBe(text)
    expect(upstream.calls).toHaveLength(1)
  })

  test.each([
    ['end', false],
    ['be cut', true],
  ])('every byte at which an upstream can %s: success only after the whole finish', async (_what, cut) => {
    const [begun, over] = ['"delta":{"content":"Ü"}', '"delta":{},"finish_reason":"stop"']
    const events = [begun, over].map((choice) => `{"id":"c","choices":[{"index":0,${choice}}]}`)
    const bytes = Buffer.from(sse(...events, '[DONE]'))
    const finished = bytes.indexOf('\n\n', bytes.indexOf('"stop"'))
    upstream.answer(async (response, call) => {
      const offset = Number(call.body['offset'])
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(bytes.subarray(0, offset))
      await wait(1)
      if (call.body['cut'] === true) response.socket?.resetAndDestroy()
      else response.end()
    })
    await eachOffset(bytes.length, async (offset) => {
      const response = await post({ stream: true, offset, cut })
      const at = `${cut ? 'cut' : 'end'} at ${offset} of ${bytes.length}`
      if (response.status !== 200) {
        expect([at, response.status]).toEqual([at, 502])
        await readChatError(response)
        expect(offset).toBeLessThan(finished)
        return
      }
      const streamed = await readStream(response)
      expect([at, streamed.errors.length]).toEqual([at, streamed.isDone ? 0 : 1])
      // After a cut the bytes that were on their way may be lost: only that none is made up is certain.
      if (!cut) expect([at, streamed.isDone]).toEqual([at, offset >= finished])
      if (streamed.isDone) expect([at, ...finishReasons(streamed)]).toEqual([at, 'stop'])
    })
  })

  test('ends without [DONE] after every choice has finished: a success, with [DONE]', async () => {
    upstream.answer(pieces([sse(finishOf(1), finishOf(0))]))
    const streamed = await readStream(await post({ stream: true, n: 2 }))
    expect(streamed.errors).toEqual([])
    expect(streamed.data).toEqual([finishOf(1), finishOf(0), '[DONE]'])
  })

  test.each([
    ['is told without choices', '{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","usage":USAGE}'],
    ['is told with null for choices', '{"id":"c","created":1,"model":"m","choices":null,"usage":USAGE}'],
    ['is written with spaces', '{"id" : "c", "created" : 1, "model" : "m", "choices" : [], "usage" : USAGE}'],
  ])('usage that %s is told when it was asked for, and only then', async (_, event) => {
    const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
    const last = event.replace('USAGE', JSON.stringify(usage))
    const text = sse(chunkText({ role: 'assistant', content: 'Hello' }), chunkText({}, 'stop'), last, '[DONE] ')
    upstream.answer(pieces([text]))
    const asked = await readStream(await post({ stream: true, stream_options: { include_usage: true } }))
    expect([asked.errors, asked.isDone, asked.data.some((data) => data.includes('"total_tokens":5'))]).toEqual([
      [],
      true,
      true,
    ])
    const unasked = await readStream(await post({ stream: true }))
    expect([unasked.errors, unasked.isDone, unasked.data.some((data) => data.includes('usage'))]).toEqual([
      [],
      true,
      false,
    ])
  })

  test('an upstream that says no more after every choice has finished has succeeded', async () => {
    const upstream = await upstreamForThisTest(
      pieces([sse(chunkText({ content: 'Hello' }), chunkText({}, 'stop'))], 'hang'),
    )
    const model = { adapter: 'openai', baseUrl: upstream.url, retries: 0, timeouts: { idle: 200 } }
    const clock = new TestClock()
    const impatient = await serviceForThisTest({}, { model }, { clock })
    const response = await impatient.request('/chat/completions', { json: { model: 'model', messages, stream: true } })
    clock.advance(200)
    const streamed = await readStream(response)
    expect([streamed.errors, streamed.isDone]).toEqual([[], true])
  })

  test('an event of many megabytes arrives whole', async () => {
    const large = chunkText({ content: 'x'.repeat(8 * 1024 ** 2) })
    upstream.answer(pieces([sse(chunkText({ role: 'assistant' }), large, chunkText({}, 'stop'), '[DONE]')]))
    const streamed = await readStream(await post({ stream: true }))
    expect([streamed.errors, streamed.isDone, streamed.data.includes(large)]).toEqual([[], true, true])
  })

  test('an event without an end is given up', async () => {
    const piece = 'x'.repeat(1024 ** 2)
    upstream.answer((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(`${sse(chunkText({ content: 'Hello' }))}data: {"choices": "`)
      const endless = Readable.from(
        (function* () {
          for (;;) yield piece
        })(),
      )
      endless.pipe(response)
      response.once('close', () => endless.destroy())
    })
    const streamed = await readStream(await post({ stream: true }))
    expect(streamed.isDone).toBe(false)
    expect(streamed.errors).toMatchObject([{ error: { code: 'upstream_error' } }])
  })

  test('a large and fast stream arrives whole at a slow reader', async () => {
    const part = 'x'.repeat(64 * 1024)
    const events = Array.from({ length: 200 }, (_, index) => chunkText({ content: `${index}${part}` }))
    upstream.answer(pieces([...events.map((event) => sse(event)), sse(chunkText({}, 'stop'), '[DONE]')]))
    const response = await post({ stream: true })
    await meanwhile()
    const streamed = await readStream(response)
    expect(streamed.data.length).toBe(202)
    expect(streamed.data.slice(0, 200).every((data, index) => data === events[index])).toBe(true)
  })
})

/** A stream that is silent until the upstream has been asked and one interval has passed. */
async function restless(script: Script) {
  const own = await upstreamForThisTest(script)
  const clock = new TestClock()
  const quick = await serviceForThisTest({ SSE_KEEPALIVE_MS: '300' }, onceAsked(own.url), { clock })
  const leaving = new AbortController()
  const asking = quick.request('/chat/completions', {
    json: { model: 'm', messages, stream: true },
    signal: leaving.signal,
  })
  const call = await own.called(1)
  clock.advance(300)
  const response = await asking
  return { clock, call, leaving, response, reader: response.body?.pipeThrough(new TextDecoderStream()).getReader() }
}

describe('silence', () => {
  async function readUntil(reader: ReadableStreamDefaultReader<string> | undefined, pattern: RegExp): Promise<string> {
    let text = ''
    while (!pattern.test(text)) {
      const step = await reader?.read()
      if (!step || step.done) throw new Error(`the stream ended: ${text}`)
      text += step.value
    }
    return text
  }
  const comments = /(?:^|\n\n): [^\n]+\n\n: [^\n]+\n\n/

  test('failure mode 4: is filled with comment lines, before the first event and between events', async () => {
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const { clock, response, reader } = await restless(async (reply) => {
      reply.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      await gates[0]?.promise
      reply.write(sse(chunkText({ content: 'One' })))
      await gates[1]?.promise
      reply.end(sse(chunkText({}, 'stop'), '[DONE]'))
    })
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
    clock.advance(300)
    let text = await readUntil(reader, comments)
    gates[0]?.resolve()
    text += await readUntil(reader, /One/)
    clock.advance(600)
    text += await readUntil(reader, comments)
    gates[1]?.resolve()
    text += await readUntil(reader, /\[DONE\]\n\n$/)
    const streamed = parseStream(text)
    expect(streamed.data).toEqual([chunkText({ content: 'One' }), chunkText({}, 'stop'), '[DONE]'])
    expect(streamed.comments).toHaveLength(4)
    expect((await reader?.read())?.done).toBe(true)
  })

  test('is filled for the first time after one interval, not two', async () => {
    const gate = Promise.withResolvers<void>()
    const { reader } = await restless(async (reply) => {
      await gate.promise
      reply.end(sse(chunkText({ content: 'One' }, 'stop'), '[DONE]'))
    })
    gate.resolve()
    const text = await readUntil(reader, /\[DONE\]\n\n$/)
    expect(text).toMatch(/^: [^\n]+\n\ndata: /)
  })

  test('a failure after the comments have begun is an error event', async () => {
    const gate = Promise.withResolvers<void>()
    const { response, reader } = await restless(async (reply) => {
      await gate.promise
      reply.writeHead(401, { 'content-type': 'application/json' }).end('{"error":{"message":"no"}}')
    })
    expect(response.status).toBe(200)
    let text = await readUntil(reader, /: /)
    gate.resolve()
    text += await readUntil(reader, /data: .*\n\n$/)
    const streamed = parseStream(text)
    expect(streamed.errors.map(({ error }) => error.code)).toEqual(['upstream_auth_error'])
    expect(streamed.isDone).toBe(false)
    expect((await reader?.read())?.done).toBe(true)
  })

  test('there is no comment in a stream that is not silent', async () => {
    upstream.answer(pieces(streamOf('one two three')))
    expect((await readStream(await post({ stream: true }))).comments).toEqual([])
  })
})

describe('the client leaves: the upstream is aborted, without waiting for any time to pass', () => {
  const hang: Script = () => {}
  const headersThenHang: Script = (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
  }
  const halfAnswer: Script = (response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).write('{"id":')
  }
  const endless: Script = async (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    while (!response.destroyed) {
      response.write(sse(chunkText({ content: 'x'.repeat(10_000) })))
      await wait(1)
    }
  }
  const scenarios: readonly (readonly [what: string, stream: boolean, script: Script])[] = [
    ['failure mode 2: whole, before the answer', false, hang],
    ['failure mode 2: whole, during the answer', false, halfAnswer],
    ['failure mode 2: streamed, before the headers', true, hang],
    ['failure mode 2: streamed, before the first token', true, headersThenHang],
    ['failure mode 1: streamed, after the first tokens', true, pieces(streamOf('One two three').slice(0, 3), 'hang')],
    ['failure mode 1: streamed, amid a fast stream that nobody reads', true, endless],
  ]
  test.each(scenarios)('%s', async (what, stream, script) => {
    upstream.answer(script)
    const leaving = new AbortController()
    const reply = post({ stream }, leaving.signal)
    reply.catch(() => {})
    const call = await untilCalled()
    if (what.startsWith('failure mode 1')) {
      const reader = (await reply).body?.getReader()
      await reader?.read()
    } else {
      await meanwhile()
    }
    leaving.abort()
    await call.aborted

    upstream.calls.length = 0
    upstream.answer(json(completion('Still here.')))
    expect((await post()).status).toBe(200)
  })

  test('while comments are sent', async () => {
    const { call, leaving, reader } = await restless(hang)
    await reader?.read()
    leaving.abort()
    await call.aborted
  })
})

test('a connection that is never made holds up neither the time limits nor what a client that left held', async () => {
  // Takes connections, and never begins what TLS begins with.
  const sockets = new Set<Socket>()
  const silent = createNetServer((socket) => sockets.add(socket.on('error', () => {})))
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  const address = silent.address()
  const baseUrl = `https://127.0.0.1:${typeof address === 'object' ? address?.port : ''}/v1`
  const model = { adapter: 'openai', baseUrl, retries: 0, timeouts: { connect: 600_000 } }
  const clock = new TestClock()
  const slow = await serviceForThisTest(
    { LIMITS: 'chat_at_once=1' },
    { limited: { ...model, timeouts: { ...model.timeouts, total: 300 } }, model },
    { clock },
  )
  // Before the service closes, which waits for its connections.
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    silent.close()
  })
  const ask = (name: string, signal?: AbortSignal) =>
    slow.request('/chat/completions', { json: { model: name, messages }, ...(signal ? { signal } : {}) })
  const limited = ask('limited')
  await once(silent, 'connection')
  clock.advance(300)
  expect((await readChatError(await limited)).code).toBe('upstream_timeout')
  const leaving = new AbortController()
  const left = ask('model', leaving.signal)
  await once(silent, 'connection')
  leaving.abort()
  await expect(left).rejects.toThrow()
  // The service hears of it a moment later.
  let status = 429
  while (status === 429) {
    const next = ask('limited')
    await Promise.race([next, clock.untilWaiting(300)])
    clock.advance(300)
    status = (await next).status
  }
  expect(status).toBe(504)
})

describe('failure mode 3: a POST body that was read to its end aborts nothing', () => {
  const long = [{ role: 'user', content: 'x'.repeat(300_000) }]

  test.each([false, true])('while the answer takes its time (stream: %s)', async (stream) => {
    let isAborted = false
    upstream.answer(async (response, call) => {
      void call.aborted.then(() => {
        isAborted = true
      })
      await wait(60)
      if (!stream) return void response.end(JSON.stringify(completion('Late.')))
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      for (const event of streamOf('Late as ever.')) {
        response.write(event)
        await wait(20)
      }
      response.end()
    })
    const response = await post({ stream, messages: long })
    expect(response.status).toBe(200)
    if (stream) expect(textOfStream(await readStream(response))).toBe('Late as ever.')
    else expect(await response.text()).toBe(JSON.stringify(completion('Late.')))
    expect(isAborted).toBe(false)
  })

  test('for the understudy', async () => {
    for (const stream of [false, true]) {
      const response = await post({ model: 'understudy', stream, messages: [...long, ...messages] })
      expect(response.status).toBe(200)
      const text = await response.text()
      expect(text).toContain(stream ? 'data: [DONE]' : '"finish_reason":"stop"')
      expect(text).not.toContain('"error"')
    }
  })
})

describe('the log says how each completion ended, once, and nothing that was said', () => {
  const events = streamOf('One two')
  const refuse = json({ error: { message: `Wrong key ${secret}` } }, 401)
  interface Ending {
    readonly what: string
    readonly script: Script
    readonly stream: boolean
    readonly status: number
    readonly state: string
  }
  const endings: readonly Ending[] = [
    { what: 'whole', script: json(completion('One')), stream: false, status: 200, state: 'stop' },
    { what: 'streamed', script: pieces(events), stream: true, status: 200, state: 'stop' },
    { what: 'refused', script: refuse, stream: false, status: 502, state: 'upstream_auth_error' },
    { what: 'refused before the first event', script: refuse, stream: true, status: 502, state: 'upstream_auth_error' },
    {
      what: 'broken off',
      script: pieces(events.slice(0, 2)),
      stream: true,
      status: 200,
      state: 'upstream_error',
    },
  ]
  test.each(endings)('$what (stream: $stream)', async ({ script, stream, status, state }) => {
    upstream.answer(script)
    const { address, key, lines, untilLogged } = await loggedService()
    const response = await fetch(`${address}/chat/completions`, {
      method: 'POST',
      headers: { authorization: key, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'A-PRIVATE-TEXT' }], stream }),
    })
    await response.text()
    await untilLogged()
    const told = lines.map((line): Record<string, unknown> => JSON.parse(line)).filter(({ msg }) => msg === 'request')
    expect(told).toEqual([expect.objectContaining({ route: '/chat/completions', model: 'm', status, state })])
    expect(lines.join('')).not.toMatch(/A-PRIVATE-TEXT|One/)
    for (const forbidden of [secret, key]) expect(lines.join('')).not.toContain(forbidden)
  })

  /** A service whose log is kept. */
  async function loggedService() {
    const lines: string[] = []
    const logged = Promise.withResolvers<void>()
    const logger = pino(
      { level: 'trace' },
      {
        write(line) {
          lines.push(line)
          if (line.includes('"msg":"request"')) logged.resolve()
        },
      },
    )
    const stores = openSqliteStores(':memory:')
    const config = readConfig({})
    const models = new ModelRegistry(defaultModels({ baseUrl: upstream.url, apiKey: secret }), config)
    const app = createServer(logger, config)
    onTestFinished(async () => {
      await app.close()
      await models.close()
      await stores.close()
    })
    await registerService(app, {
      config,
      stores,
      models,
      library: new CharacterLibrary({ store: stores.characters, largestCard: config.cardBodyLimit }),
      visits: new Visits({
        limiter: stores.limiter(config.limits),
        ledger: stores.ledger,
        onFailure: () => {},
      }),
      guard: new Guard(stores.access),
      prompt: { systemPrompt: 'S' },
      metrics: new Metrics(),
      logger,
    })
    await stores.access.createAccount('owner')
    const { secret: key } = await stores.access.createKey({ account: 'owner', scopes: ['chat'] })
    const address = await app.listen({ host: '127.0.0.1', port: 0 })
    return { address, key, lines, untilLogged: () => logged.promise }
  }
})
