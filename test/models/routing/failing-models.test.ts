import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { expectBrokenOff, parseStream, readChatError, readStream, textOfStream } from '../../support/chat.ts'
import { TestClock } from '../../support/clock.ts'
import { serviceForThisTest } from '../../support/service.ts'
import {
  answering,
  callCounts,
  clock,
  dropping,
  failing,
  first,
  hanging,
  limits,
  meanwhile,
  modes,
  post,
  timed,
  twoUpstreamsForThisFile,
} from '../../support/two-upstreams.ts'
import {
  chunkText,
  completion,
  pieces,
  type Script,
  sse,
  streamOf,
  upstreamForThisTest,
} from '../../support/upstream.ts'

twoUpstreamsForThisFile()

describe('a deadline', () => {
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
  test.each(before)('%s: %s (stream: %s) is a 504, and is not retried', async (model, _what, stream, script) => {
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

  test('idle and total: in a stream that has begun, the timeout is an error event', async () => {
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

  test('idle counts neither the whole time of a stream nor the time until its first event', async () => {
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

  test('idle does not count the time of a slow reader', async () => {
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
    // Advances the clock until no piece was sent during five idle deadlines.
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

  test('connect: an upstream that accepts no connection is a 504', async () => {
    // A process that listens and never accepts: connections beyond its queue get no answer.
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
    // When the first socket is connected, the system has the requests of all sockets, so the queue is full.
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
  test.each(failures)('is not asked after its breaker has opened: %s', async (_what, stream, script, status) => {
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

  test('is neither a model that refuses requests nor a model that sometimes fails', async () => {
    const { upstream, service: own } = await breaking(60_000)
    upstream.answer(failing(400))
    for (let count = 0; count < 5; count++) expect((await post({ model: 'dead' }, own)).status).toBe(400)
    upstream.answer(failing(429))
    for (let count = 0; count < 5; count++) expect((await post({ model: 'dead' }, own)).status).toBe(429)
    const limited = { error: { message: 'Too many requests.', type: 'rate_limit_error', code: 429 } }
    upstream.answer(pieces([sse(chunkText({ content: 'One' })), sse(JSON.stringify(limited))]))
    for (let count = 0; count < 5; count++) {
      const response = await post({ model: 'dead', stream: true }, own)
      expect([response.status, await response.text()]).toEqual([200, expect.stringContaining('rate_limit')])
    }
    upstream.answer(failing(500), failing(500), answering('Yes.'), failing(500), failing(500), answering('Yes.'))
    const statuses: number[] = []
    for (let count = 0; count < 6; count++) {
      const response = await post({ model: 'dead', stream: count === 2 }, own)
      statuses.push(response.status)
      await response.text()
    }
    expect(statuses).toEqual([502, 502, 200, 502, 502, 200])
  })

  test('is not asked by a retry after its breaker has opened', async () => {
    const { upstream, service: own } = await breaking(60_000, { retries: 5 })
    upstream.answer(failing(500, { 'retry-after': '0' }))
    expect((await post({ model: 'dead' }, own)).status).toBe(502)
    expect(upstream.calls).toHaveLength(3)
  })

  test('gets one probe after the pause, and all requests after a successful probe', async () => {
    const { upstream, time, service: own } = await breaking(400)
    upstream.answer(failing(500))
    for (let count = 0; count < 3; count++) await post({ model: 'dead' }, own)
    time.advance(399)
    expect((await post({ model: 'dead' }, own)).status).toBe(503)
    time.advance(1)
    // The probe fails, and the breaker opens for another pause.
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
    const other = post({ model: 'dead', stream: true }, own)
    // A request for a list goes on to the next model immediately. A request for one model waits up to a second for the probe.
    expect((await post({ model: 'list' }, own)).headers.get('x-model')).toBe('spare')
    await time.untilWaiting(1000)
    time.advance(999)
    expect((await post({ model: 'list' }, own)).headers.get('x-model')).toBe('spare')
    expect(time.isWaiting(1000)).toBe(true)
    time.advance(1)
    // The probe takes long, so the request is let through.
    await upstream.called(6)
    const waiting = [post({ model: 'dead' }, own), post({ model: 'dead' }, own)]
    await time.untilWaiting(1000)
    gate.resolve()
    expect((await probe).status).toBe(200)
    expect((await other).status).toBe(200)
    expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual([200, 200])
    expect((await post({ model: 'dead' }, own)).status).toBe(200)
  })

  test('is asked again after a probe whose client has left', async () => {
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
