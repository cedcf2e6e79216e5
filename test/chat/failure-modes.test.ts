import type { ServerResponse } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Chunk } from '../../src/openai/completion.ts'
import { finishReasons, readChatError, readCompletion, readStream, textOfStream } from '../support/chat.ts'
import { onceAsked, startTestService, type TestService } from '../support/service.ts'
import {
  chunkText,
  completion,
  json,
  pieces,
  type Script,
  type ScriptedUpstream,
  sse,
  startUpstream,
  streamOf,
} from '../support/upstream.ts'

const secret = 'sk-canary-0123456789abcdefghijklmnop'
let upstream: ScriptedUpstream
let other: ScriptedUpstream
let service: TestService

beforeAll(async () => {
  upstream = await startUpstream()
  other = await startUpstream()
  const first = { adapter: 'openai', baseUrl: upstream.url, apiKey: secret, breaker: { failures: 0 } }
  service = await startTestService(
    {},
    {
      ...onceAsked(upstream.url, secret),
      eager: { ...first, retries: 2 },
      once: { ...first, retries: 0 },
      second: { adapter: 'openai', baseUrl: other.url, retries: 0, breaker: { failures: 0 } },
      both: { fallback: ['once', 'second'] },
      stubborn: { fallback: ['eager', 'second'] },
      silent: { ...first, retries: 2, timeouts: { idle: 250 } },
      blind: { ...first, input: ['text'] },
      strict: { ...first, mergeMessages: true },
      anthropic: { adapter: '@ai-sdk/anthropic', model: 'claude', baseUrl: upstream.url, apiKey: 'k', retries: 0 },
    },
  )
})

beforeEach(() => {
  upstream.calls.length = 0
  other.calls.length = 0
  upstream.answer(json(completion('Hello there.')))
  other.answer((response, call) =>
    call.body['stream'] === true
      ? pieces(streamOf('From the second.'))(response, call)
      : json(completion('From the second.'))(response, call),
  )
})

afterAll(async () => {
  await service?.close()
  await upstream?.close()
  await other?.close()
})

const messages = [{ role: 'user', content: 'Hello' }]

function post(body: Readonly<Record<string, unknown>> = {}): Promise<Response> {
  return service.request('/chat/completions', { json: { model: 'gpt-test', messages, ...body } })
}

const started = [
  chunkText({ role: 'assistant', content: '' }),
  chunkText({ content: 'One ' }),
  chunkText({ content: 'two' }),
]
const modes = [false, true]

async function textOf(response: Response, stream: boolean): Promise<string> {
  if (stream) return textOfStream(await readStream(response))
  return (await readCompletion(response)).choices[0]?.message.content ?? ''
}

describe('a 200 that begins with an error event', () => {
  const failed = '{"error":{"message":"overloaded","code":529}}'
  const scripts: readonly (readonly [what: string, script: Script])[] = [
    ['alone', pieces([sse(failed)])],
    ['and [DONE]', pieces([sse(failed, '[DONE]')])],
    ['after comments', pieces([': hi\n\n', sse(failed)])],
    ['named as an event', pieces([`event: error\ndata: ${failed}\n\n`])],
    ['and then an answer', pieces([sse(failed), ...streamOf('Never to be told.')])],
  ]
  test.each(scripts)('is a real HTTP error: %s', async (_what, script) => {
    upstream.answer(script)
    const response = await post({ stream: true })
    expect(response.status).toBe(502)
    expect(await readChatError(response)).toMatchObject({ type: 'server_error', code: 'upstream_error' })
  })

  test.each(scripts)('is answered by the fallback: %s', async (_what, script) => {
    upstream.answer(script)
    const response = await post({ model: 'both', stream: true })
    expect([response.status, response.headers.get('x-model')]).toEqual([200, 'second'])
    const streamed = await readStream(response)
    expect([textOfStream(streamed), streamed.isDone, streamed.errors]).toEqual(['From the second.', true, []])
    expect([upstream.calls.length, other.calls.length]).toEqual([1, 1])
  })
})

describe('after the first text there is no retry', () => {
  const failures: readonly (readonly [what: string, script: Script])[] = [
    ['a cut', pieces([sse(...started)], 'cut')],
    ['an end without a finish', pieces([sse(...started)])],
    ['an error event', pieces([sse(...started, '{"error":{"message":"x"}}')])],
    ['garbage', pieces([sse(...started, 'garbage')])],
  ]
  test.each(failures)('no retry after the first text: %s', async (_what, script) => {
    upstream.answer(script)
    const response = await post({ model: 'stubborn', stream: true })
    expect([response.status, response.headers.get('x-model')]).toEqual([200, 'eager'])
    const streamed = await readStream(response)
    expect('One two'.startsWith(textOfStream(streamed))).toBe(true)
    expect([streamed.errors.length, streamed.isDone]).toEqual([1, false])
    expect([upstream.calls.length, other.calls.length]).toEqual([1, 0])
  })
})

test('a stall after two chunks ends the stream with a typed error, and aborts the request to the upstream', async () => {
  upstream.answer(pieces([sse(...started)], 'hang'))
  const streamed = await readStream(await post({ model: 'silent', stream: true }))
  expect(textOfStream(streamed)).toBe('One two')
  expect(streamed.errors).toEqual([
    {
      error: {
        message: expect.stringMatching(/^The model .+\.$/),
        type: 'server_error',
        param: null,
        code: 'upstream_timeout',
      },
    },
  ])
  expect(streamed.isDone).toBe(false)
  expect(upstream.calls).toHaveLength(1)
  await upstream.calls[0]?.aborted
})

describe('odd ends and slow readers', () => {
  const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5, prompt_tokens_details: { cached_tokens: 1 } }
  const lasts: readonly (readonly [what: string, chunk: Record<string, unknown>])[] = [
    ['a choice without a delta', { choices: [{ index: 0, finish_reason: 'stop' }], usage }],
    ['a delta that is null', { choices: [{ index: 0, delta: null, finish_reason: 'stop' }], usage }],
  ]
  test.each(lasts)('the usage of a last chunk reaches the client: %s', async (_what, chunk) => {
    upstream.answer(pieces([sse(...started, JSON.stringify(chunk), '[DONE]')]))
    const streamed = await readStream(await post({ stream: true, stream_options: { include_usage: true } }))
    expect(streamed.errors).toEqual([])
    expect(streamed.isDone).toBe(true)
    expect(textOfStream({ ...streamed, chunks: streamed.chunks.slice(0, 3) })).toBe('One two')
    expect(streamed.chunks.at(-1)).toMatchObject({ choices: [], usage })
  })

  test('a slow reader slows a fast upstream down, and memory stays bounded', async () => {
    const event = sse(chunkText({ content: 'x'.repeat(64 * 1024) }))
    const most = 256 * 1024 ** 2
    let sent = 0
    upstream.answer(async (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      while (sent < most && !response.destroyed) {
        sent += event.length
        if (response.write(event)) await new Promise((resolve) => setImmediate(resolve))
        else await drained(response)
      }
      response.end()
    })
    const leaving = new AbortController()
    const response = await service.request('/chat/completions', {
      json: { model: 'gpt-test', messages, stream: true },
      signal: leaving.signal,
    })
    expect(response.status).toBe(200)
    for (let before = -1; before !== sent; await wait(250)) before = sent
    // The buffers of the kernel for two connections fill, and little more is sent.
    expect(sent).toBeLessThan(64 * 1024 ** 2)
    leaving.abort()
    await upstream.calls[0]?.aborted
  })
})

/** Resolves when the upstream may write again, or when its reader has left. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const go = () => {
      response.off('drain', go).off('close', go)
      resolve()
    }
    response.on('drain', go).on('close', go)
  })
}

describe('a 429', () => {
  test('is one error event in the middle of a stream, without a retry', async () => {
    upstream.answer(pieces([sse(...started, '{"error":{"code":429,"message":"slow down"}}')]))
    const streamed = await readStream(await post({ model: 'stubborn', stream: true }))
    expect([streamed.errors.length, streamed.isDone]).toEqual([1, false])
    // A retry would reach an upstream before this request ends.
    await (await post({ model: 'understudy' })).text()
    expect([upstream.calls.length, other.calls.length]).toEqual([1, 0])
  })

  test.each(modes)('is retried before the answer as often as `retries` says (stream: %s)', async (stream) => {
    upstream.answer(json({ error: { message: 'slow down' } }, 429, { 'retry-after': '0' }))
    const response = await post({ model: 'eager', stream })
    expect([response.status, response.headers.get('retry-after')]).toEqual([429, '0'])
    expect(await readChatError(response)).toMatchObject({ type: 'rate_limit_error', code: 'rate_limit_exceeded' })
    expect(upstream.calls).toHaveLength(3)
  })
})

describe('parallel tool calls', () => {
  const call = (index: number, more: Record<string, unknown>) => chunkText({ tool_calls: [{ index, ...more }] })
  const events = [
    chunkText({ role: 'assistant', content: null }),
    call(0, { id: 'call_a', type: 'function', function: { name: 'weather', arguments: '' } }),
    call(1, { id: 'call_b', type: 'function', function: { name: 'weather', arguments: '' } }),
    call(1, { function: { arguments: '{"city":' } }),
    call(0, { function: { arguments: '{"city":"Köln"}' } }),
    call(1, { function: { arguments: '"Łódź"}' } }),
    chunkText({}, 'tool_calls'),
  ]
  const tool = {
    type: 'function',
    function: {
      name: 'weather',
      parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    },
  }

  test('keep their ids and indices, as the upstream sent them', async () => {
    upstream.answer(pieces([sse(...events, '[DONE]')]))
    const streamed = await readStream(await post({ stream: true, tools: [tool] }))
    expect(streamed.data).toEqual([...events, '[DONE]'])
    expect(callsOf(streamed.chunks)).toEqual([
      ['call_a', 'weather', '{"city":"Köln"}'],
      ['call_b', 'weather', '{"city":"Łódź"}'],
    ])
    expect(finishReasons(streamed)).toEqual(['tool_calls'])
  })

  test('the understudy makes the same calls whole and streamed, for every choice', async () => {
    const asked = { model: 'understudy', tools: [tool], tool_choice: 'required', n: 2 }
    const whole = await readCompletion(await post(asked))
    const streamed = await readStream(await post({ ...asked, stream: true }))
    for (const { index, message, finish_reason } of whole.choices) {
      const calls = message.tool_calls?.map((each) => [each.function.name, each.function.arguments]) ?? []
      expect(calls).toHaveLength(1)
      expect(finish_reason).toBe('tool_calls')
      expect(callsOf(streamed.chunks, index).map(([, ...rest]) => rest)).toEqual(calls)
      expect(finishReasons(streamed, index)).toEqual(['tool_calls'])
    }
  })

  /** Id, name and arguments of each call, assembled by index; a second id of one index would be visible. */
  function callsOf(chunks: readonly Chunk[], choice = 0): readonly (readonly string[])[] {
    const calls: [string, string, string][] = []
    for (const { delta } of chunks.flatMap(({ choices }) => choices).filter(({ index }) => index === choice)) {
      for (const { index, id, function: called } of delta.tool_calls ?? []) {
        const [ids, names, texts] = calls[index] ?? ['', '', '']
        calls[index] = [ids + (id ?? ''), names + (called?.name ?? ''), texts + (called?.arguments ?? '')]
      }
    }
    return calls
  }
})

describe('content parts', () => {
  const parts = [
    { type: 'text', text: 'Hello ' },
    { type: 'text', text: 'again' },
  ]
  test.each(modes)('an array of text parts works (stream: %s)', async (stream) => {
    if (stream) upstream.answer(pieces(streamOf('Hello there.')))
    const content = [{ role: 'user', content: parts }]
    for (const model of ['gpt-test', 'blind', 'understudy']) {
      const response = await post({ model, messages: content, stream })
      expect([model, response.status]).toEqual([model, 200])
      expect(await textOf(response, stream)).not.toBe('')
    }
    expect(upstream.calls.map(({ body }) => body['messages'])).toEqual([content, content])
  })

  const files: readonly (readonly [what: string, part: Record<string, unknown>])[] = [
    ['image', { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }],
    ['audio', { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }],
    ['file', { type: 'file', file: { file_data: 'AAAA', filename: 'a.pdf' } }],
  ]
  test.each(files)('an %s for a model that accepts only text is refused, and not left out', async (what, part) => {
    for (const stream of modes) {
      const content = [...messages, { role: 'user', content: [...parts, part] }]
      const response = await post({
        model: 'blind',
        messages: content,
        stream,
        stream_options: { include_usage: true },
      })
      expect(response.status).toBe(400)
      const error = await readChatError(response)
      expect(error).toMatchObject({
        type: 'invalid_request_error',
        code: 'unsupported_input',
        param: 'messages[1].content[2]',
      })
      expect(error.message).toContain(what)
    }
    expect(upstream.calls).toEqual([])
  })
})

describe('an unknown parameter', () => {
  const odd = { frobnicate: 3, constructor: 'x', 'ü,y': null, 'größe, x': [1] }
  const answerOfAnthropic = {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'claude',
    content: [{ type: 'text', text: 'Hello.' }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 },
  }
  test('goes unchanged to an upstream of the same API', async () => {
    const response = await post(odd)
    expect([response.status, response.headers.get('x-ignored-params')]).toEqual([200, null])
    expect(upstream.calls[0]?.body).toStrictEqual({ model: 'gpt-test', messages, ...odd })
  })

  test.each(['understudy', 'anthropic'])('is named in x-ignored-params by every other adapter: %s', async (model) => {
    upstream.answer(json(answerOfAnthropic))
    const response = await post({ model, ...odd })
    expect(response.status).toBe(200)
    const named = (response.headers.get('x-ignored-params') ?? '').split(',').map(decodeURIComponent).sort()
    expect(named).toEqual(['constructor', 'frobnicate', 'größe, x'])
    expect(JSON.stringify(upstream.calls.map(({ body }) => body))).not.toContain('frobnicate')
  })
})

describe('templates that require strict alternation', () => {
  const system = (content: string) => ({ role: 'system', content })
  const user = (content: string) => ({ role: 'user', content })
  const assistant = (content: string) => ({ role: 'assistant', content })
  const conversations: readonly (readonly [what: string, sent: readonly object[], got: readonly object[]])[] = [
    ['two system messages', [system('A'), system('B'), user('C')], [system('A\n\nB'), user('C')]],
    [
      'repeated roles',
      [user('A'), user('B'), assistant('C'), assistant('D'), user('E')],
      [user('A\n\nB'), assistant('C\n\nD'), user('E')],
    ],
    [
      'an assistant that begins',
      [system('A'), assistant('B'), user('C')],
      [system('A'), user('[Start a new chat]'), assistant('B'), user('C')],
    ],
    ['an empty text', [user(''), user('A')], [user('A')]],
    ['nothing to join', [user('A'), assistant('B'), user('C')], [user('A'), assistant('B'), user('C')]],
    [
      'text and parts',
      [user('A'), { role: 'user', content: [{ type: 'text', text: 'B' }] }],
      [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'A' },
            { type: 'text', text: 'B' },
          ],
        },
      ],
    ],
  ]
  test.each(conversations)('still work with mergeMessages: %s', async (_what, sent, got) => {
    expect((await post({ model: 'strict', messages: sent })).status).toBe(200)
    expect((await post({ model: 'once', messages: sent })).status).toBe(200)
    expect(upstream.calls.map(({ body }) => body['messages'])).toEqual([got, sent])
  })

  const called = (id: string) => ({
    role: 'assistant',
    content: null,
    tool_calls: [{ id, type: 'function', function: { name: 'f', arguments: '{}' } }],
  })
  const result = (id: string) => ({ role: 'tool', tool_call_id: id, content: 'ok' })

  test('tool calls and their results are not joined', async () => {
    const sent = [user('A'), called('a'), result('a'), called('b'), result('b'), user('B'), user('C')]
    await post({ model: 'strict', messages: sent })
    expect(upstream.calls[0]?.body['messages']).toEqual([...sent.slice(0, -2), user('B\n\nC')])
  })

  test('long ids of tool calls stay as they are', async () => {
    const id = 'c'.repeat(16_000)
    const sent = [user('A'), called(id), result(id), user('B')]
    await post({ model: 'strict', messages: sent })
    expect(upstream.calls[0]?.body['messages']).toEqual(sent)
  })

  test('a request with a character and its examples has alternating roles too', async () => {
    await post({ model: 'strict', character: 'Fern', messages: [system('Be brief.'), user('A'), user('B')] })
    const sent = upstream.calls[0]?.body['messages']
    if (!Array.isArray(sent)) throw new Error('no messages')
    // The greeting is an assistant's message, so a neutral user line comes before it.
    expect(sent.map(({ role }) => role)).toEqual(['system', 'user', 'assistant', 'user'])
    expect(sent[0].content).toContain('Fern')
    expect(sent[0].content).toContain('Be brief.')
    expect(sent[3].content).toBe('A\n\nB')
  })
})

describe('a conversation that is longer than the context', () => {
  const sayings = [
    json({ error: { message: 'Too long.', code: 'context_length_exceeded', param: 'messages' } }, 400),
    json({ error: { message: "This model's maximum context length is 8192 tokens." } }, 400),
    json({ error: { message: 'prompt is too long: 208310 tokens > 200000 maximum' } }, 400),
    json({ error: { message: 'the request exceeds the available context size' } }, 400),
    json({ error: 'input length and `max_tokens` exceed context limit' }, 413),
  ]
  test.each(modes)('is a 400, whatever words the upstream uses for it (stream: %s)', async (stream) => {
    for (const script of sayings) {
      upstream.answer(script)
      const response = await post({ model: 'eager', stream })
      expect(response.status).toBe(400)
      expect(await readChatError(response)).toMatchObject({ code: 'context_length_exceeded', param: 'messages' })
    }
    expect([upstream.calls.length, other.calls.length]).toEqual([sayings.length, 0])
    // The next model of a list may have a larger context.
    expect(await textOf(await post({ model: 'stubborn', stream }), stream)).toBe('From the second.')
  })

  test('is sent whole: neither the persona nor the history is cut', async () => {
    const long = Array.from({ length: 400 }, (_, index) => ({
      role: index % 2 === 0 ? 'user' : 'assistant',
      content: `${index} ${'word '.repeat(500)}`,
    }))
    expect((await post({ character: 'Fern', messages: long })).status).toBe(200)
    const sent = upstream.calls[0]?.body['messages']
    if (!Array.isArray(sent)) throw new Error('no messages')
    expect(sent[0].content).toContain('Fern is the botanist who keeps the Conservatory.')
    expect(sent.slice(-400)).toEqual(long)
  })
})

describe('an error of the upstream is an HTTP error', () => {
  const failing: readonly (readonly [what: string, script: Script])[] = [
    ['500', json({ error: { message: 'x' } }, 500)],
    ['401', json({ error: { message: 'x' } }, 401)],
    ['429', json({ error: { message: 'x' } }, 429)],
    ['400', json({ error: { message: 'x' } }, 400)],
    ['an error inside a 200', json({ error: { message: 'x' } })],
    ['an error inside a 200 with choices', json(completion('', { error: { message: 'x' } }))],
    ['no choices', json(completion('', { choices: [] }))],
    ['HTML', (response) => void response.writeHead(200).end('<html>')],
    ['a cut', (response) => void response.socket?.resetAndDestroy()],
  ]
  test.each(failing)('of 400 or more: %s', async (_what, script) => {
    for (const stream of modes) {
      upstream.answer(script)
      const response = await post({ stream })
      expect([stream, response.status >= 400]).toEqual([stream, true])
      const text = await response.clone().text()
      expect(text).not.toMatch(/finish_reason|choices|\[DONE\]/)
      await readChatError(response)
    }
  })
})
