import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import {
  parseStream,
  readChatError,
  readCompletion,
  readStream,
  type Streamed,
  textOfStream,
} from '../../support/chat.ts'
import { TestClock } from '../../support/clock.ts'
import { compileCache } from '../../support/command.ts'
import { spawnService } from '../../support/process.ts'
import { serviceForThisTest, startTestService, type TestService, temporaryFolder } from '../../support/service.ts'
import {
  chunkText,
  completion,
  json,
  pieces,
  type Script,
  type ScriptedUpstream,
  startUpstream,
  streamOf,
  upstreamForThisTest,
} from '../../support/upstream.ts'

const messages = [{ role: 'user', content: 'Hello' }]
const modes = [false, true]
const sse = (...events: readonly string[]): string => events.map((event) => `data: ${event}\n\n`).join('')

/** Answers well, whole or streamed as asked. */
const answering =
  (text: string): Script =>
  (response, call) =>
    call.body['stream'] === true ? pieces(streamOf(text))(response, call) : json(completion(text))(response, call)
const failing = (status: number, headers: Record<string, string> = {}): Script =>
  json({ error: { message: 'No.' } }, status, headers)
const dropping: Script = (response) => void response.socket?.resetAndDestroy()
const hanging: Script = () => {}

/** The time limits of the models that are called like them, milliseconds. */
const limits = { firstToken: 60, total: 120, idle: 250 }

let first: ScriptedUpstream
let second: ScriptedUpstream
let service: TestService
/** The same on a clock of its own. */
let timed: TestService
const clock = new TestClock()

beforeAll(async () => {
  first = await startUpstream()
  second = await startUpstream()
  const one = { adapter: 'openai', baseUrl: first.url, retries: 0, breaker: { failures: 0 } }
  const two = { ...one, baseUrl: second.url }
  const models = {
    one: { ...one, model: 'first-model' },
    two: { ...two, model: 'second-model', defaults: { temperature: 0.25 } },
    'pre/*': two,
    list: { fallback: ['one', 'two'] },
    nested: { fallback: ['list', 'understudy'] },
    understudy: { adapter: 'understudy' },
    retried: { ...one, retries: 3 },
    twice: { ...one, retries: 1 },
    defaults: { ...one, defaults: { temperature: 0.5, stop: ['x'], frobnicate: { a: 1 }, n: 2 } },
    texts: { ...one, input: ['text'] },
    pictures: { ...one, input: ['text', 'image'] },
    headed: { ...one, apiKey: 'k', headers: { 'x-team': 'plants', 'api-key': 'azure' } },
    firstToken: { ...one, timeouts: { firstToken: limits.firstToken } },
    total: { ...one, timeouts: { total: limits.total } },
    idle: { ...one, timeouts: { idle: limits.idle } },
    impatient: { fallback: ['firstToken', 'two'] },
  }
  service = await startTestService({}, models)
  timed = await startTestService({}, models, { clock })
})

beforeEach(() => {
  for (const upstream of [first, second]) upstream.calls.length = 0
  first.answer(answering('From the first.'))
  second.answer(answering('From the second.'))
})

afterAll(async () => {
  await service?.close()
  await timed?.close()
  await first?.close()
  await second?.close()
})

function post(body: Readonly<Record<string, unknown>>, at = service, signal?: AbortSignal): Promise<Response> {
  return at.request('/chat/completions', { json: { messages, ...body }, ...(signal ? { signal } : {}) })
}

async function textOf(response: Response, stream: boolean): Promise<string> {
  if (stream) return textOfStream(await readStream(response))
  return (await readCompletion(response)).choices[0]?.message.content ?? ''
}

/** Resolves when what was on its way between the service and its upstreams has come, which a call to the second tells. */
async function meanwhile(): Promise<void> {
  const before = second.calls.length
  await (await post({ model: 'two' }, timed)).text()
  second.calls.length = before
}

function callCounts(): readonly number[] {
  return [first.calls.length, second.calls.length]
}

describe('x-model names who answered', () => {
  test.each(modes)('in models.json, whatever the request called it (stream: %s)', async (stream) => {
    const names = { one: 'one', 'pre/any/id': 'pre%2F*', list: 'one', nested: 'one', default: 'one' }
    for (const [model, name] of Object.entries(names)) {
      const response = await post({ model, stream })
      expect([model, response.status, response.headers.get('x-model')]).toEqual([model, 200, name])
      await response.text()
    }
  })
})

describe('a list of models', () => {
  const failures: readonly (readonly [what: string, script: Script])[] = [
    ['a 500', failing(500)],
    ['a 401', failing(401)],
    ['a 429', failing(429, { 'retry-after': '3600' })],
    ['a 404 page', (response) => void response.writeHead(503).end('<html>')],
    ['a dropped connection', dropping],
    ['garbage', (response) => void response.writeHead(200).end('garbage')],
    ['an error inside a 200', json({ error: { message: 'x' } })],
    ['nothing', (response) => void response.writeHead(200).end()],
  ]
  for (const stream of modes) {
    test.each(failures)(`is answered by the next after %s (stream: ${stream})`, async (_what, script) => {
      first.answer(script)
      const response = await post({ model: 'list', stream })
      expect([response.status, response.headers.get('x-model')]).toEqual([200, 'two'])
      expect(await textOf(response, stream)).toBe('From the second.')
      expect(callCounts()).toEqual([1, 1])
      // Each is asked in its own name and with its own defaults.
      expect(first.calls[0]?.body).toMatchObject({ model: 'first-model' })
      expect(first.calls[0]?.body).not.toHaveProperty('temperature')
      expect(second.calls[0]?.body).toMatchObject({ model: 'second-model', temperature: 0.25 })
    })

    test(`ends with the error of the last (stream: ${stream})`, async () => {
      first.answer(failing(500))
      second.answer(failing(429, { 'retry-after': '7' }))
      const response = await post({ model: 'list', stream })
      expect([response.status, response.headers.get('retry-after')]).toEqual([429, '7'])
      expect(await readChatError(response)).toMatchObject({ code: 'rate_limit_exceeded' })
      expect(response.headers.get('x-model')).toBeNull()
    })

    test.each([400, 404, 413, 422])(
      `does not try the next after the caller's fault: %i (stream: ${stream})`,
      async (status) => {
        first.answer(failing(status))
        const response = await post({ model: 'list', stream })
        expect(response.status).toBe(status)
        await readChatError(response)
        expect(callCounts()).toEqual([1, 0])
      },
    )

    test(`goes on after a time limit, and within lists (stream: ${stream})`, async () => {
      first.answer(stream ? hanging : failing(500))
      const reply = post({ model: stream ? 'impatient' : 'list', stream }, timed)
      await first.called(1)
      clock.advance(limits.firstToken)
      const response = await reply
      expect(await textOf(response, stream)).toBe('From the second.')
      first.answer(failing(500))
      second.answer(dropping)
      const last = await post({ model: 'nested', stream })
      expect([last.status, last.headers.get('x-model')]).toEqual([200, 'understudy'])
      expect(await textOf(last, stream)).not.toBe('')
    })
  }

  test('is not gone on with when the client has left', async () => {
    first.answer(hanging)
    const leaving = new AbortController()
    const reply = post({ model: 'list' }, timed, leaving.signal)
    reply.catch(() => {})
    const call = await first.called(1)
    leaving.abort()
    await call.aborted
    await meanwhile()
    expect(callCounts()).toEqual([1, 0])
  })
})

describe('retries', () => {
  const soon = { 'retry-after': '0' }
  const passing: readonly (readonly [what: string, script: Script])[] = [
    ['a 500', failing(500, soon)],
    ['a 503', failing(503, soon)],
    ['a 429', failing(429, soon)],
    ['a dropped connection', dropping],
  ]
  for (const stream of modes) {
    test.each(passing)(`until it answers, after %s (stream: ${stream})`, async (_what, script) => {
      first.answer(script, answering('At last.'))
      const response = await post({ model: 'retried', stream })
      expect(response.status).toBe(200)
      expect(await textOf(response, stream)).toBe('At last.')
      expect(callCounts()).toEqual([2, 0])
      expect(first.calls[1]?.body).toEqual(first.calls[0]?.body)
    })

    test(`as often as the settings say, and then the error is told (stream: ${stream})`, async () => {
      first.answer(failing(500, soon))
      expect((await post({ model: 'retried', stream })).status).toBe(502)
      expect(callCounts()).toEqual([4, 0])
      expect((await post({ model: 'twice', stream })).status).toBe(502)
      expect(callCounts()).toEqual([6, 0])
      expect((await post({ model: 'one', stream })).status).toBe(502)
      expect(callCounts()).toEqual([7, 0])
    })

    test.each([400, 401, 403, 404, 409, 413, 422])(`are not made of a %i (stream: ${stream})`, async (status) => {
      first.answer(failing(status, soon))
      expect((await post({ model: 'retried', stream })).status).toBe([401, 403].includes(status) ? 502 : status)
      expect(callCounts()).toEqual([1, 0])
    })

    test(`are not made when the upstream wants them much later (stream: ${stream})`, async () => {
      first.answer(failing(429, { 'retry-after': '60' }))
      const response = await post({ model: 'retried', stream })
      expect([response.status, response.headers.get('retry-after')]).toEqual([429, '60'])
      expect(callCounts()).toEqual([1, 0])
    })
  }

  test('wait as long as Retry-After says', async () => {
    first.answer(failing(429, { 'retry-after': '1' }), answering('Now.'))
    const reply = post({ model: 'retried' }, timed)
    await clock.untilWaiting(1000)
    clock.advance(999)
    await meanwhile()
    expect(callCounts()).toEqual([1, 0])
    clock.advance(1)
    expect(await textOf(await reply, false)).toBe('Now.')
  })

  test('end when the client leaves during the wait', async () => {
    first.answer(failing(429, { 'retry-after': '1' }))
    const leaving = new AbortController()
    const reply = post({ model: 'retried' }, timed, leaving.signal)
    reply.catch(() => {})
    await clock.untilWaiting(1000)
    leaving.abort()
    await clock.untilWaiting(1000, false)
    clock.advance(1000)
    await meanwhile()
    expect(callCounts()).toEqual([1, 0])
  })
})

describe('time limits', () => {
  const started = [chunkText({ role: 'assistant', content: '' }), chunkText({ content: 'One' })]
  const headersOnly: Script = (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
  }
  const before: readonly (readonly [model: keyof typeof limits, what: string, stream: boolean, script: Script])[] = [
    ['firstToken', 'no headers', true, hanging],
    ['firstToken', 'no event', true, headersOnly],
    ['firstToken', 'comments alone', true, pieces([': one\n\n'], 'hang')],
    ['total', 'no headers', false, hanging],
    ['total', 'half an answer', false, pieces(['{"id":'], 'hang')],
    ['total', 'no event', true, headersOnly],
  ]
  test.each(before)('%s: %s (stream: %s) is a 504, once', async (model, _what, stream, script) => {
    first.answer(script)
    const reply = post({ model, stream }, timed)
    const call = await first.called(1)
    await meanwhile()
    clock.advance(limits[model])
    const response = await reply
    expect(response.status).toBe(504)
    const error = await readChatError(response)
    expect(error).toMatchObject({ type: 'server_error', code: 'upstream_timeout' })
    expect(error.message).toMatch(new RegExp(`^The model .+ for ${limits[model]} ms\\..+\\.$`))
    expect(callCounts()).toEqual([1, 0])
    await call.aborted
  })

  test('idle and total end a stream that has begun with an error event', async () => {
    const endless: Script = async (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      while (!response.destroyed) {
        response.write(sse(...started))
        await wait(10)
      }
    }
    const scripts = [
      ['idle', pieces([sse(...started)], 'hang')],
      ['total', endless],
    ] as const
    for (const [model, script] of scripts) {
      first.answer(script)
      const response = await post({ model, stream: true }, timed)
      expect([model, response.status]).toEqual([model, 200])
      clock.advance(limits[model])
      expectBrokenOff(await readStream(response), 'upstream_timeout')
    }
    expect(callCounts()).toEqual([2, 0])
    await Promise.all(first.calls.map(({ aborted }) => aborted))
  })

  test('idle is not the time that a stream takes, nor that its first event takes', async () => {
    const [opening = '', ...events] = streamOf('one two three four five six')
    const gates = Array.from({ length: events.length + 1 }, () => Promise.withResolvers<void>())
    first.answer(async (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      for (const [index, event] of [opening, ...events].entries()) {
        await gates[index]?.promise
        response.write(event)
      }
      response.end()
    })
    const reply = post({ model: 'idle', stream: true }, timed)
    await first.called(1)
    clock.advance(limits.idle + 1)
    gates[0]?.resolve()
    const reader = (await reply).body?.pipeThrough(new TextDecoderStream()).getReader()
    const read = async () => (await reader?.read())?.value ?? ''
    let text = await read()
    for (const gate of gates.slice(1)) {
      clock.advance(limits.idle - 1)
      gate.resolve()
      text += await read()
    }
    for (let more = await read(); more; more = await read()) text += more
    const streamed = parseStream(text)
    expect([textOfStream(streamed), streamed.isDone]).toEqual(['one two three four five six', true])
  })

  test('idle is not the time that a slow reader takes', async () => {
    const count = 400
    let sent = 0
    first.answer(async (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      for (; sent < count && !response.destroyed; sent++) {
        const isFree = response.write(sse(chunkText({ content: `${sent} ${'x'.repeat(64 * 1024)}` })))
        if (!isFree) await Promise.race([once(response, 'drain'), once(response, 'close')])
      }
      response.end(sse(chunkText({}, 'stop'), '[DONE]'))
    })
    const response = await post({ model: 'idle', stream: true }, timed)
    // Until nothing has gone on for several times as long as the model may be silent.
    for (let held = 0, before = -1; held < 5; ) {
      await meanwhile()
      held = sent === before ? held + 1 : 0
      before = sent
      clock.advance(limits.idle - 1)
    }
    expect(sent).toBeLessThan(count)
    const streamed = await readStream(response)
    expect(streamed.errors).toEqual([])
    expect(streamed.data).toHaveLength(count + 2)
  })

  test('connect: an upstream that takes no connection is a 504', async () => {
    // A process that listens and never accepts: what its queue does not take is not answered.
    const code = `require('node:net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, function () {
      require('node:fs').writeSync(1, this.address().port + '\\n')
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
    })`
    const deaf = spawn(process.execPath, ['-e', code], { stdio: ['ignore', 'pipe', 'inherit'] })
    const fillers: Socket[] = []
    onTestFinished(() => {
      deaf.kill('SIGKILL')
      for (const socket of fillers) socket.destroy()
    })
    const [line] = await once(deaf.stdout, 'data')
    const port = Number(String(line))
    for (let index = 0; index < 8; index++) fillers.push(connect(port, '127.0.0.1').on('error', () => {}))
    // By then each has asked: the first is taken, and the queue is full.
    if (fillers[0]) await once(fillers[0], 'connect')
    const own = await serviceForThisTest(
      {},
      { deaf: { adapter: 'openai', baseUrl: `http://127.0.0.1:${port}/v1`, timeouts: { connect: 100 } } },
    )
    for (const stream of modes) {
      const response = await post({ model: 'deaf', stream }, own)
      expect(response.status).toBe(504)
      expect(await readChatError(response)).toMatchObject({ code: 'upstream_timeout' })
    }
  })
})

function expectBrokenOff(streamed: Streamed, code: string): void {
  expect(streamed.errors.map(({ error }) => error.code)).toEqual([code])
  expect(streamed.isDone).toBe(false)
  expect(streamed.data.at(-1)).toBe(JSON.stringify(streamed.errors[0]))
}

describe('a model that keeps failing', () => {
  async function breaking(pause: number, more: Readonly<Record<string, unknown>> = {}) {
    const upstream = await upstreamForThisTest()
    const adapter = { adapter: 'openai', baseUrl: upstream.url, retries: 0, breaker: { failures: 3, pause } }
    const models = {
      dead: { ...adapter, ...more },
      spare: { adapter: 'understudy' },
      list: { fallback: ['dead', 'spare'] },
    }
    const time = new TestClock()
    return { upstream, time, service: await serviceForThisTest({}, models, { clock: time }) }
  }
  const failures: readonly (readonly [what: string, stream: boolean, script: Script, status: number])[] = [
    ['a 500', false, failing(500), 502],
    ['a 401', false, failing(401), 502],
    ['a dropped connection, streamed', true, dropping, 502],
    ['a stream that breaks off', true, pieces([sse(chunkText({ content: 'One' }))]), 200],
  ]
  test.each(failures)('is left alone after so many times: %s', async (_what, stream, script, status) => {
    const { upstream, service: own } = await breaking(60_000)
    upstream.answer(script)
    for (let count = 1; count <= 3; count++) {
      const response = await post({ model: 'dead', stream }, own)
      expect([count, response.status]).toEqual([count, status])
      await response.text()
    }
    for (const streamed of modes) {
      const response = await post({ model: 'dead', stream: streamed }, own)
      expect(response.status).toBe(503)
      expect(response.headers.get('retry-after')).toBe('60')
      expect(await readChatError(response)).toMatchObject({ type: 'server_error', code: 'model_unavailable' })
    }
    expect((await post({ model: 'list' }, own)).headers.get('x-model')).toBe('spare')
    expect(upstream.calls).toHaveLength(3)
  })

  test('is not one that refuses, nor one that fails now and then', async () => {
    const { upstream, service: own } = await breaking(60_000)
    upstream.answer(failing(400))
    for (let count = 0; count < 5; count++) expect((await post({ model: 'dead' }, own)).status).toBe(400)
    upstream.answer(failing(429))
    for (let count = 0; count < 5; count++) expect((await post({ model: 'dead' }, own)).status).toBe(429)
    upstream.answer(failing(500), failing(500), answering('Yes.'), failing(500), failing(500), answering('Yes.'))
    const statuses: number[] = []
    for (let count = 0; count < 6; count++) {
      const response = await post({ model: 'dead', stream: count === 2 }, own)
      statuses.push(response.status)
      await response.text()
    }
    expect(statuses).toEqual([502, 502, 200, 502, 502, 200])
  })

  test('is not asked again by a request that was on its way to a retry', async () => {
    const { upstream, service: own } = await breaking(60_000, { retries: 5 })
    upstream.answer(failing(500, { 'retry-after': '0' }))
    expect((await post({ model: 'dead' }, own)).status).toBe(502)
    expect(upstream.calls).toHaveLength(3)
  })

  test('is asked again once after the pause: one request, and all when that succeeds', async () => {
    const { upstream, time, service: own } = await breaking(400)
    upstream.answer(failing(500))
    for (let count = 0; count < 3; count++) await post({ model: 'dead' }, own)
    time.advance(399)
    expect((await post({ model: 'dead' }, own)).status).toBe(503)
    time.advance(1)
    // The probe fails: closed again for as long.
    expect((await post({ model: 'dead' }, own)).status).toBe(502)
    expect((await post({ model: 'dead' }, own)).status).toBe(503)
    expect(upstream.calls).toHaveLength(4)

    time.advance(400)
    const gate = Promise.withResolvers<void>()
    upstream.answer(async (response) => {
      await gate.promise
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(completion('Back.')))
    })
    const probe = post({ model: 'dead' }, own)
    await upstream.called(5)
    const others = await Promise.all([post({ model: 'dead' }, own), post({ model: 'dead', stream: true }, own)])
    expect(others.map(({ status }) => status)).toEqual([503, 503])
    expect(upstream.calls).toHaveLength(5)
    gate.resolve()
    expect((await probe).status).toBe(200)
    expect((await post({ model: 'dead' }, own)).status).toBe(200)
  })

  test('is asked again after a probe whose client left', async () => {
    const { upstream, time, service: own } = await breaking(50)
    upstream.answer(failing(500))
    for (let count = 0; count < 3; count++) await post({ model: 'dead' }, own)
    time.advance(50)
    upstream.answer(hanging)
    const leaving = new AbortController()
    post({ model: 'dead' }, own, leaving.signal).catch(() => {})
    const call = await upstream.called(4)
    leaving.abort()
    await call.aborted
    upstream.answer(answering('Back.'))
    let status = 503
    while (status === 503) status = (await post({ model: 'dead' }, own)).status
    expect(status).toBe(200)
  })
})

describe('settings of a model', () => {
  test('defaults are sent for what was not sent, or was null', async () => {
    const sent = { model: 'defaults', stop: ['y'], temperature: null, n: 1, user: 'u', stream: false }
    expect((await post(sent)).status).toBe(200)
    expect(first.calls[0]?.body).toStrictEqual({
      ...sent,
      model: 'defaults',
      messages,
      temperature: 0.5,
      frobnicate: { a: 1 },
    })
    expect((await post({ model: 'defaults', temperature: 0, frobnicate: false, stream: false })).status).toBe(200)
    expect(first.calls[1]?.body).toMatchObject({ temperature: 0, frobnicate: false, n: 2 })
  })

  test('headers are sent with each request', async () => {
    await post({ model: 'headed' })
    expect(first.calls[0]?.headers).toMatchObject({ authorization: 'Bearer k', 'x-team': 'plants', 'api-key': 'azure' })
  })

  test('input: what a model does not take is a 400 that names the part, and what it takes passes', async () => {
    const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }
    const audio = { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }
    const withPart = (part: unknown) => [...messages, { role: 'user', content: [{ type: 'text', text: 'a' }, part] }]
    const rows = [
      ['texts', image, 400],
      ['texts', audio, 400],
      ['pictures', audio, 400],
      ['pictures', image, 200],
      ['one', image, 200],
      ['one', audio, 200],
    ] as const
    for (const [model, part, status] of rows) {
      for (const stream of modes) {
        const response = await post({ model, messages: withPart(part), stream })
        expect([model, part.type, response.status]).toEqual([model, part.type, status])
        if (status === 200) await response.text()
        else expect(await readChatError(response)).toMatchObject({ param: 'messages[1].content[1]' })
      }
    }
    expect(first.calls).toHaveLength(6)
  })
})

test('the log line has the model that was asked for, the one that answered, the retries and the state', async () => {
  const upstream = await upstreamForThisTest()
  const folder = temporaryFolder()
  onTestFinished(folder.remove)
  const adapter = { adapter: 'openai', baseUrl: upstream.url, breaker: { failures: 0 } }
  const models = {
    best: { fallback: ['one', 'two'] },
    one: { ...adapter, retries: 0 },
    two: { ...adapter, retries: 2 },
  }
  writeFileSync(join(folder.path, 'models.json'), JSON.stringify({ models }))
  const own = await spawnService(process.execPath, ['src/main.ts'], {
    environment: { ...compileCache, DATA_DIR: folder.path, BOOTSTRAP_KEY: 'a-key-of-the-caller-0123456789' },
  })
  const soon = { 'retry-after': '0' }
  const asked: readonly (readonly [stream: boolean, scripts: readonly Script[], line: Record<string, unknown>])[] = [
    [false, [answering('Yes.')], { model: 'best', model_used: 'one', retries: 0, state: 'stop', status: 200 }],
    [true, [answering('Yes.')], { model: 'best', model_used: 'one', retries: 0, state: 'stop', status: 200 }],
    [
      false,
      [failing(500), failing(500, soon), failing(500, soon), answering('Yes.')],
      { model: 'best', model_used: 'two', retries: 2, state: 'stop', status: 200 },
    ],
    [
      true,
      [failing(500), failing(500, soon), pieces([sse(chunkText({ content: 'One' }))])],
      { model: 'best', model_used: 'two', retries: 1, state: 'upstream_error', status: 200 },
    ],
    [true, [failing(401)], { model: 'best', state: 'upstream_auth_error', status: 502 }],
  ]
  for (const [stream, scripts] of asked) {
    upstream.answer(...scripts)
    const response = await fetch(`${own.url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: own.key, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'best', messages, stream }),
    })
    await response.text()
  }
  own.process.kill('SIGTERM')
  await own.exited
  const lines = own
    .stdout()
    .trim()
    .split('\n')
    .map((line): Record<string, unknown> => JSON.parse(line))
  expect(lines.filter(({ msg }) => msg === 'request')).toEqual(asked.map(([, , line]) => expect.objectContaining(line)))
})

describe('the understudies that misbehave, by default', () => {
  let alone: TestService

  beforeAll(async () => {
    alone = await startTestService()
  })

  afterAll(() => alone?.close())

  const question = { messages: [{ role: 'user', content: 'How do I know when to repot?' }], character: 'Fern' }
  const act = (manner: string, stream: boolean, signal?: AbortSignal) =>
    post({ ...question, model: `understudy/${manner}`, stream }, alone, signal)
  const goodText = async () => textOf(await post({ ...question, model: 'understudy' }, alone), false)

  test('slow: waits 2 s, and says the same, whole and streamed', async () => {
    const good = await goodText()
    const slow = modes.map(async (stream) => {
      const begun = performance.now()
      const few = await post({ ...question, model: 'understudy/slow', stream, max_tokens: 3 }, alone)
      expect(performance.now() - begun).toBeGreaterThan(1990)
      expect(good.startsWith(await textOf(few, stream))).toBe(true)
    })
    await Promise.all(slow)
  })

  test('stall: three words, and then nothing', async () => {
    const leaving = new AbortController()
    const response = await act('stall', true, leaving.signal)
    expect(response.status).toBe(200)
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
    let text = ''
    while (text.split('\n\n').length <= 4) text += (await reader?.read())?.value ?? ''
    expect(text).not.toMatch(/"error"|\[DONE\]|"finish_reason":"/)
    const more = reader?.read().then(() => 'more')
    more?.catch(() => {})
    expect(await Promise.race([more, wait(200, 'nothing')])).toBe('nothing')
    leaving.abort()
    const whole = act('stall', false, AbortSignal.timeout(200)).then(
      () => 'an answer',
      () => 'nothing',
    )
    expect(await whole).toBe('nothing')
  })

  test('cut: three words and an error event, or a 502', async () => {
    const streamed = await readStream(await act('cut', true))
    expectBrokenOff(streamed, 'upstream_error')
    expect(textOfStream(streamed)).toMatch(/^\S+\s+\S+\s+\S+\s*$/)
    expect((await goodText()).startsWith(textOfStream(streamed))).toBe(true)
    const whole = await act('cut', false)
    expect([whole.status, (await readChatError(whole)).code]).toEqual([502, 'upstream_error'])
  })

  test.each(modes)('429 and 500: what they say (stream: %s)', async (stream) => {
    const often = await act('429', stream)
    expect([often.status, often.headers.get('retry-after')]).toEqual([429, '1'])
    expect(await readChatError(often)).toMatchObject({ type: 'rate_limit_error', code: 'rate_limit_exceeded' })
    const failed = await act('500', stream)
    expect(failed.status).toBe(500)
    expect(await readChatError(failed)).toMatchObject({ type: 'server_error', code: 'internal_error' })
  })

  test('garbage: no JSON, whole or as the third event', async () => {
    const whole = await act('garbage', false)
    expect(whole.status).toBe(200)
    expect(await whole.text()).toMatch(/^</)
    const streamed = await act('garbage', true)
    expect(streamed.status).toBe(200)
    const events = (await streamed.text()).split('\n\n')
    const isJson = (text: string) => {
      try {
        JSON.parse(text.slice(6))
        return true
      } catch {
        return false
      }
    }
    expect(events.slice(0, 4).map(isJson)).toEqual([true, true, false, true])
  })

  test('empty: a whole answer without a word', async () => {
    const whole = await readCompletion(await act('empty', false))
    expect(whole.choices).toMatchObject([{ message: { content: '' }, finish_reason: 'stop' }])
    const streamed = await readStream(await act('empty', true))
    expect([textOfStream(streamed), streamed.isDone, streamed.errors]).toEqual(['', true, []])
  })
})
