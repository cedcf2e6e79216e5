import { randomInt } from 'node:crypto'
import { connect } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import * as fc from 'fast-check'
import { Pool } from 'undici'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readChatError } from '../support/chat.ts'
import {
  type Attempt,
  attempts,
  chatBody,
  plantBody,
  type RawAttempt,
  rawAttempts,
  shown,
} from '../support/malformed-requests.ts'
import { often } from '../support/often.ts'
import { spawnService } from '../support/process.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { completion, startUpstream, streamOf } from '../support/upstream.ts'

let service: TestService

beforeAll(async () => {
  service = await startTestService()
})

afterAll(() => service?.close())

/**
 * What is wrong with the body of a refusal; undefined if it has exactly the error shape of its path. If the path is
 * null, the body may have either shape.
 */
function faultOf(path: string | null, status: number, text: string): string | undefined {
  if (path === null) return faultOf('/plants', status, text) && faultOf('/chat', status, text)
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    return 'it is no JSON'
  }
  if (!isFields(body)) return 'it is no object'
  if (isPlants(path)) {
    if (Object.keys(body).join() !== 'error,message') return 'it has other fields'
    return body['error'] === status && isSentence(body['message'])
      ? undefined
      : 'its fields are not what they should be'
  }
  const { error } = body
  if (Object.keys(body).join() !== 'error' || !isFields(error)) return 'it has other fields'
  if (Object.keys(error).join() !== 'message,type,param,code') return 'its error has other fields'
  const { message, type, param, code } = error
  const isRight = isSentence(message) && typeof type === 'string' && typeof code === 'string'
  return isRight && (param === null || typeof param === 'string') ? undefined : 'its fields are not what they should be'
}

function isPlants(path: string): boolean {
  return /^\/plants(?:[/?]|$)/.test(path)
}

function isSentence(value: unknown): boolean {
  return typeof value === 'string' && /^[A-Z].+\.$/s.test(value)
}

function isFields(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

describe('a null, empty, wrong-typed or missing body, or field of one', () => {
  const wrong: readonly unknown[] = [
    null,
    '',
    ' ',
    'text',
    0,
    -1,
    1.5,
    1e308,
    true,
    false,
    [],
    [null],
    [[]],
    {},
    { a: 1 },
  ]
  const bodies = [
    '',
    ' ',
    'null',
    'true',
    '0',
    '"text"',
    '[]',
    '[{}]',
    '{}',
    '{"":0}',
    '{',
    'nul',
    '\uFEFF{}',
    '{}{}',
    '{"a":01}',
  ]
  const groups: readonly (readonly [path: string, body: Readonly<Record<string, unknown>>, required: string])[] = [
    [
      '/chat/completions',
      { ...chatBody, user_name: 'Ada', stream: false, stream_options: null, n: 1, stop: 'x', seed: 1 },
      'model messages',
    ],
    [
      '/v1/chat/completions',
      { ...chatBody, max_tokens: 5, temperature: 1, tools: [], tool_choice: 'auto', user: 'u' },
      'model messages',
    ],
    ['/plants', { ...plantBody, id: 1 }, 'name'],
  ]

  test.each(groups)('%s gives no 5xx, and each refusal has its error shape', async (path, valid, required) => {
    const sent: (readonly [string, string | undefined])[] = [
      ...bodies.map((body) => [body, undefined] as const),
      ...Object.keys(valid).map(
        (field) =>
          [
            JSON.stringify({ ...valid, [field]: undefined }),
            required.split(' ').includes(field) ? field : undefined,
          ] as const,
      ),
    ]
    for (const [body, param] of sent) {
      const isMissing = !bodies.includes(body) && param === undefined
      const response = await service.request(path, {
        method: 'POST',
        body,
        headers: { 'content-type': 'application/json' },
      })
      const text = await response.text()
      expect([body, response.status]).toEqual([body, isMissing ? expect.any(Number) : 400])
      expect([body, response.status]).not.toEqual([body, 500])
      if (response.status >= 400) expect([body, faultOf(path, response.status, text)]).toEqual([body, undefined])
      if (param !== undefined) expect(text).toContain(param)
    }
    for (const field of Object.keys(valid)) {
      for (const value of wrong) {
        const body = JSON.stringify({ ...valid, [field]: value })
        const response = await service.request(path, {
          method: 'POST',
          body,
          headers: { 'content-type': 'application/json' },
        })
        const text = await response.text()
        expect([body, [200, 400, 404, 409].includes(response.status)]).toEqual([body, true])
        if (response.status >= 400) expect([body, faultOf(path, response.status, text)]).toEqual([body, undefined])
        const isMalformed = required.split(' ').includes(field) && (value === '' || typeof value !== 'string')
        if (isMalformed) expect([body, response.status]).toEqual([body, 400])
      }
    }
    expect((await service.request('/livez')).status).toBe(200)
  })
})

describe('a request that would cost memory is refused before memory is allocated for it', () => {
  const message = (content: unknown) => ({ ...chatBody, messages: [{ role: 'user', content }] })
  const nested = (depth: number, open: string, close: string, inmost = '') =>
    `{"model":"understudy","messages":[{"role":"user","content":"Hi"}],"x":${open.repeat(depth)}${inmost}${close.repeat(depth)}}`

  test.each([9, 1e6, 2 ** 31, 2 ** 53, 1e300])('more than 8 choices are a 400: %d', async (n) => {
    for (const stream of [false, true]) {
      const response = await service.request('/chat/completions', { json: { ...chatBody, n, stream } })
      expect(response.status).toBe(400)
      expect(await readChatError(response)).toMatchObject({ param: 'n' })
    }
  })

  test.each([
    ['arrays', nested(200_000, '[', ']')],
    ['arrays without an end', nested(3_000_000, '[', '')],
    ['objects', nested(200_000, '{"a":', '}', '1')],
    ['both', nested(100_000, '[{"a":', '}]', '1')],
    ['just too deep', nested(100, '[', ']')],
  ])('JSON that is too deep gets a 400, or a 413 if it is also too long: %s', async (_what, body) => {
    for (const path of ['/chat/completions', '/plants']) {
      const response = await service.request(path, { body })
      const text = await response.text()
      expect([path, response.status]).toEqual([path, path === '/plants' && body.length > 1024 ** 2 ? 413 : 400])
      expect(faultOf(path, response.status, text)).toBeUndefined()
    }
  })

  test('JSON of the maximum depth is accepted', async () => {
    expect((await service.request('/chat/completions', { body: nested(99, '[', ']') })).status).toBe(200)
  })

  test.each([
    ['/chat/completions', 8 * 1024 ** 2],
    ['/v1/chat/completions', 8 * 1024 ** 2],
    ['/plants', 1024 ** 2],
  ])('a body over the limit of %s is a 413', async (path, limit) => {
    const response = await service.request(path, { json: message('x'.repeat(limit)) })
    expect(response.status).toBe(413)
    expect(faultOf(path, 413, await response.text())).toBeUndefined()
    expect((await service.request('/livez')).status).toBe(200)
  })

  test.each(['/chat/completions', '/plants'])('%s: a Content-Length over the limit is a 413', async (path) => {
    const reply = await exchange(
      service.url,
      `POST ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${service.key}\r\ncontent-type: application/json\r\ncontent-length: 99999999999\r\n\r\n{`,
      { halfClose: false, until: /\}$/ },
    )
    expect(reply).toMatch(/^HTTP\/1\.1 413 /)
    expect(faultOf(path, 413, reply.slice(reply.indexOf('\r\n\r\n') + 4))).toBeUndefined()
  })

  test('a chunked body over the limit is a 413', async () => {
    const piece = `${(65536).toString(16)}\r\n${'x'.repeat(65536)}\r\n`
    const head = `POST /plants HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${service.key}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n`
    const reply = await exchange(service.url, head + piece.repeat(40), { halfClose: false, until: /\}$/ })
    expect(reply).toMatch(/^HTTP\/1\.1 413 /)
    expect(faultOf('/plants', 413, reply.slice(reply.indexOf('\r\n\r\n') + 4))).toBeUndefined()
  })

  test('too many stop texts, tools, fields, messages or parts are a 400', async () => {
    const rows: readonly (readonly [unknown, readonly number[]])[] = [
      [{ ...chatBody, stop: Array.from({ length: 100_000 }, () => 'a') }, [400]],
      [
        { ...chatBody, tools: Array.from({ length: 10_000 }, () => ({ type: 'function', function: { name: 'a' } })) },
        [400],
      ],
      [{ ...chatBody, ...Object.fromEntries(Array.from({ length: 990 }, (_, index) => [`x${index}`, index])) }, [200]],
      [{ ...chatBody, ...Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`x${index}`, index])) }, [400]],
      [{ ...chatBody, messages: Array.from({ length: 10_000 }, () => ({ role: 'user', content: 'a' })) }, [200]],
      [{ ...chatBody, messages: Array.from({ length: 10_001 }, () => ({ role: 'user', content: 'a' })) }, [400]],
      [message(Array.from({ length: 1000 }, () => ({ type: 'text', text: 'a' }))), [200]],
      [message(Array.from({ length: 1001 }, () => ({ type: 'text', text: 'a' }))), [400]],
    ]
    for (const [json, statuses] of rows) {
      const response = await service.request('/chat/completions', { json })
      expect(statuses).toContain(response.status)
      const text = await response.text()
      if (response.status >= 400) expect(faultOf('/chat/completions', response.status, text)).toBeUndefined()
    }
  })
})

/** The beginning of the message of a refusal by load shedding. */
const overloaded = 'The service has too many requests at the moment.'

/** Sends a request, and again after a second if the service sheds load: other tests may be using the machine. */
async function untilTaken<T extends { readonly isOverloaded: boolean }>(send: () => Promise<T>): Promise<T> {
  for (;;) {
    const answer = await send()
    if (!answer.isOverloaded) return answer
    await wait(1000)
  }
}

describe('a thousand malformed requests', () => {
  const atOnce = 50
  const wellFormedCount = often(900)
  const rawCount = often(100)

  test('get no 5xx but 501 and no hang, the process lives, and every error has the shape of its route', async () => {
    const upstream = await startUpstream((response, { body }) => {
      if (body['stream'] === true) response.end(streamOf('Hello').join(''))
      else response.end(JSON.stringify(completion('Hello')))
    })
    const spawned = await spawnService(process.execPath, ['src/main.ts'], {
      environment: { OPENAI_BASE_URL: upstream.url, LOG_LEVEL: 'error' },
    })
    const pool = new Pool(spawned.url, { connections: atOnce, headersTimeout: 0, bodyTimeout: 0 })
    const seed = randomInt(2 ** 31)
    const faults: string[] = []
    const statuses = new Map<number, number>()

    const judge = (attempt: Attempt | RawAttempt, status: number, body: string | undefined) => {
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      const path = 'path' in attempt ? attempt.path : null
      const refusal = status >= 400 && body !== undefined ? faultOf(path, status, body) : undefined
      // 501 is the answer to a transfer coding that the service does not have (RFC 9112, section 6.1).
      const fault = status >= 500 && status !== 501 ? 'it is a 5xx' : refusal
      if (fault === undefined) return
      faults.push(`${fault}: ${shown(attempt, spawned.key)} -> ${status} ${body?.slice(0, 300)}`)
    }
    const send = async (attempt: Attempt) => {
      try {
        const { path, method, body } = attempt
        const headers = { authorization: `Bearer ${spawned.key}`, ...attempt.headers }
        const { status, text } = await untilTaken(async () => {
          const reply = await pool.request({ path, method, headers, body: body ?? null })
          const text = await reply.body.text()
          const isOverloaded = reply.statusCode === 503 && (method === 'HEAD' || text.includes(overloaded))
          return { status: reply.statusCode, text, isOverloaded }
        })
        judge(attempt, status, method === 'HEAD' ? undefined : text)
      } catch (error) {
        faults.push(`${error}: ${shown(attempt, spawned.key)}`)
      }
    }
    const sendRaw = async (attempt: RawAttempt) => {
      try {
        const { reply } = await untilTaken(async () => {
          const reply = await exchange(spawned.url, attempt.bytes(spawned.key), { halfClose: true })
          return { reply, isOverloaded: reply.includes(overloaded) }
        })
        if (reply === '') return
        const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(reply)?.[1] ?? 599)
        const end = reply.indexOf('\r\n\r\n')
        // The text may have the replies to several requests: then only the first reply counts.
        const length = Number(/content-length: (\d+)/i.exec(reply.slice(0, end))?.[1] ?? 0)
        const body = attempt.isHead
          ? undefined
          : Buffer.from(reply.slice(end + 4), 'latin1')
              .subarray(0, length)
              .toString()
        judge(attempt, status, body)
      } catch (error) {
        faults.push(`${error}: ${shown(attempt, spawned.key)}`)
      }
    }

    const work = [
      ...fc.sample(attempts(), { numRuns: wellFormedCount, seed }).map((attempt) => () => send(attempt)),
      ...fc.sample(rawAttempts(), { numRuns: rawCount, seed }).map((attempt) => () => sendRaw(attempt)),
    ].values()
    const worker = async () => {
      for (const step of work) {
        await step()
        if (faults.length >= 20) return
      }
    }
    await Promise.all(Array.from({ length: atOnce }, worker))

    expect({ seed, faults }).toEqual({ seed, faults: [] })
    expect([...statuses.values()].reduce((sum, count) => sum + count)).toBeGreaterThan(wellFormedCount)
    // Most requests are refused, and some are valid by chance: there must be both.
    for (const status of [200, 400, 404, 405, 415])
      expect([status, (statuses.get(status) ?? 0) > 0]).toEqual([status, true])
    const alive = await pool.request({ path: '/livez', method: 'GET' })
    expect([alive.statusCode, spawned.process.exitCode]).toEqual([200, null])
    expect(await alive.body.json()).toEqual({ status: 'ok' })
    const said = await pool.request({
      path: '/chat/completions',
      method: 'POST',
      headers: { authorization: spawned.key, 'content-type': 'application/json' },
      body: JSON.stringify(chatBody),
    })
    expect(said.statusCode).toBe(200)
    await said.body.text()
    expect(spawned.stdout()).toBe('')
    expect(spawned.stderr()).not.toMatch(/\bError\b|\bat .+:\d+|[Ww]arning/)
    await pool.close()
    await upstream.close()
  }, 90_000)
})

/**
 * Sends bytes over a new connection.
 * @param until a pattern; the exchange ends when the reply matches it
 * @returns the reply as Latin-1, until the connection is closed or the pattern matches
 */
async function exchange(
  url: string,
  bytes: string | Uint8Array,
  { halfClose, until }: { readonly halfClose: boolean; readonly until?: RegExp },
): Promise<string> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  let text = ''
  const ended = new Promise<void>((resolve) => {
    socket.on('error', () => resolve())
    socket.on('close', () => resolve())
    socket.on('data', (data) => {
      text += data.toString('latin1')
      if (until?.test(text)) resolve()
    })
  })
  if (halfClose) socket.end(bytes)
  else socket.write(bytes)
  await ended
  socket.destroy()
  return text
}
