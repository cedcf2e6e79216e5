import { Readable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { finishReasons, readChatError, readStream, textOfStream } from '../support/chat.ts'
import { TestClock } from '../support/clock.ts'
import { onceAsked, serviceForThisTest } from '../support/service.ts'
import { chunkText, json, pieces, type Script, sse, startUpstream, upstreamForThisTest } from '../support/upstream.ts'
import {
  eachOffset,
  meanwhile,
  messages,
  post,
  secret,
  upstream,
  upstreamServiceForThisFile,
} from '../support/upstream-service.ts'

upstreamServiceForThisFile()

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
      message: /^Bad Wrong: …, or key …, at … <b>now<\/b>$/,
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
  test.each(rows)('error: $what (stream: $stream)', async ({ what, script, stream, status, code, message, param }) => {
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
      '<html',
      'nginx',
    ]) {
      expect(body).not.toContain(forbidden)
    }
    const [path, ...others] = upstream.calls.map((call) => call.path)
    expect(path).toBe('/v1/chat/completions')
    // The upstream may have closed a connection of an earlier test; such a request is sent once more.
    expect(others.length).toBeLessThanOrEqual(what === 'a connection that is cut' ? 1 : 0)
  })

  test.each([false, true])('a 429 keeps its Retry-After (stream: %s)', async (stream) => {
    upstream.answer(json({ error: { message: secret } }, 429, { 'retry-after': '17' }))
    const response = await post({ stream })
    expect([response.status, response.headers.get('retry-after')]).toEqual([429, '17'])
    expect((await readChatError(response)).type).toBe('rate_limit_error')
  })

  test.each<[Record<string, string>, string | null, string | null]>([
    [{ 'retry-after-ms': '1500' }, '2', '1500'],
    [{ 'retry-after-ms': '20.5', 'retry-after': '60' }, '1', '21'],
    [{ 'retry-after-ms': '0' }, '0', '0'],
    [{ 'retry-after-ms': 'soon', 'retry-after': '4' }, '4', null],
    [{ 'retry-after-ms': '-1' }, null, null],
    [{ 'retry-after-ms': secret }, null, null],
  ])(
    'a 429 keeps its retry-after-ms, and has the wait in seconds as retry-after: %j',
    async (headers, seconds, milliseconds) => {
      upstream.answer(json({ error: { message: 'Wait.' } }, 429, headers))
      const response = await post()
      expect([response.headers.get('retry-after'), response.headers.get('retry-after-ms')]).toEqual([
        seconds,
        milliseconds,
      ])
    },
  )

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
  const finishOf = (index: number) =>
    JSON.stringify({ choices: [{ index, delta: { role: 'assistant' }, finish_reason: 'stop' }] })
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
      script: pieces([sse(...started, '{"error":{"message":"The GPU fell off the bus."}}', '[DONE]')]),
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
      what: 'a broken connection when one of two choices has not begun',
      script: pieces([sse(...started, finishOf(0))], 'cut'),
      code: 'upstream_error',
      n: 2,
    },
  ]
  test.each(failures)('ends the stream without [DONE]: $what', async ({ script, code, text = 'One two', n = 1 }) => {
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
    ['ends', false],
    ['is cut', true],
  ])('a stream that %s at any byte is a success only after the whole finish event', async (_what, cut) => {
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
      // A connection that is cut may lose bytes that were sent, so the result at an offset is certain only if the upstream ends
      // the stream normally.
      if (!cut) expect([at, streamed.isDone]).toEqual([at, offset >= finished])
      if (streamed.isDone) expect([at, ...finishReasons(streamed)]).toEqual([at, 'stop'])
    })
  })

  test('an end without [DONE] after every choice has finished is a success, with [DONE]', async () => {
    upstream.answer(pieces([sse(finishOf(1), finishOf(0))]))
    const streamed = await readStream(await post({ stream: true, n: 2 }))
    expect(streamed.errors).toEqual([])
    expect(streamed.data).toEqual([finishOf(1), finishOf(0), '[DONE]'])
  })

  test.each([
    ['has no choices', '{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","usage":USAGE}'],
    ['has null for choices', '{"id":"c","created":1,"model":"m","choices":null,"usage":USAGE}'],
    ['is written with spaces', '{"id" : "c", "created" : 1, "model" : "m", "choices" : [], "usage" : USAGE}'],
  ])('a usage chunk that %s is passed on if the caller requested usage, and only then', async (_, event) => {
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

  test('an upstream that is silent after every choice has finished has succeeded', async () => {
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

  test('an event without an end is aborted', async () => {
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
    const events = Array.from({ length: 200 }, (_, index) =>
      chunkText({ role: 'assistant', content: `${index}${part}` }),
    )
    upstream.answer(pieces([...events.map((event) => sse(event)), sse(chunkText({}, 'stop'), '[DONE]')]))
    const response = await post({ stream: true })
    await meanwhile()
    const streamed = await readStream(response)
    expect(streamed.data.length).toBe(202)
    expect(streamed.data.slice(0, 200).every((data, index) => data === events[index])).toBe(true)
  })
})
