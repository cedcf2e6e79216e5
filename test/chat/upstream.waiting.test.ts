import { once } from 'node:events'
import { createServer as createNetServer, type Socket } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { parseStream, readChatError, readStream, textOfStream } from '../support/chat.ts'
import { TestClock } from '../support/clock.ts'
import { onceAsked, serviceForThisTest } from '../support/service.ts'
import {
  chunkText,
  completion,
  json,
  pieces,
  type Script,
  sse,
  streamOf,
  upstreamForThisTest,
} from '../support/upstream.ts'
import {
  meanwhile,
  messages,
  post,
  untilCalled,
  upstream,
  upstreamServiceForThisFile,
} from '../support/upstream-service.ts'

upstreamServiceForThisFile()

/** Requests a stream, waits until the upstream has the request, and then lets one interval of silence pass. */
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

  test('is filled with comment lines, before the first event and between events', async () => {
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const { clock, response, reader } = await restless(async (reply) => {
      reply.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      await gates[0]?.promise
      reply.write(sse(chunkText({ role: 'assistant', content: 'One' })))
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
    expect(streamed.data).toEqual([chunkText({ role: 'assistant', content: 'One' }), chunkText({}, 'stop'), '[DONE]'])
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

  test('a stream without silence has no comment', async () => {
    upstream.answer(pieces(streamOf('one two three')))
    expect((await readStream(await post({ stream: true }))).comments).toEqual([])
  })
})

describe('a client that leaves aborts the request to the upstream immediately', () => {
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
  const scenarios: readonly (readonly [what: string, stream: boolean, script: Script, readsFirst: boolean])[] = [
    ['whole, before the answer', false, hang, false],
    ['whole, during the answer', false, halfAnswer, false],
    ['streamed, before the headers', true, hang, false],
    ['streamed, before the first token', true, headersThenHang, false],
    ['streamed, after the first tokens', true, pieces(streamOf('One two three').slice(0, 3), 'hang'), true],
    ['streamed, during a fast stream that is not read any more', true, endless, true],
  ]
  test.each(scenarios)('%s', async (_what, stream, script, readsFirst) => {
    upstream.answer(script)
    const leaving = new AbortController()
    const reply = post({ stream }, leaving.signal)
    reply.catch(() => {})
    const call = await untilCalled()
    if (readsFirst) {
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

  test('streamed, while comment lines fill the silence', async () => {
    const { call, leaving, reader } = await restless(hang)
    await reader?.read()
    leaving.abort()
    await call.aborted
  })
})

test('a connection that is never established delays neither the timeouts nor the end of a request whose client has left', async () => {
  // Accepts connections, and never begins the TLS handshake.
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
  // This runs before the service closes, because the service waits for its connections.
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
  // The service notices a moment later that the client has left.
  let status = 429
  while (status === 429) {
    const next = ask('limited')
    await Promise.race([next, clock.untilWaiting(300)])
    clock.advance(300)
    status = (await next).status
  }
  expect(status).toBe(504)
})

describe('a POST body that was read to its end aborts nothing', () => {
  const long = [{ role: 'user', content: 'x'.repeat(300_000) }]

  test.each([false, true])('while the answer is slow (stream: %s)', async (stream) => {
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

  test('and the understudy completes its answer', async () => {
    for (const stream of [false, true]) {
      const response = await post({ model: 'understudy', stream, messages: [...long, ...messages] })
      expect(response.status).toBe(200)
      const text = await response.text()
      expect(text).toContain(stream ? 'data: [DONE]' : '"finish_reason":"stop"')
      expect(text).not.toContain('"error"')
    }
  })
})
