import { once } from 'node:events'
import { connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { expectError, sendRaw } from '../support/http.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { openSql, type TestSql } from '../support/test-sql.ts'

let service: TestService
let sql: TestSql

beforeAll(async () => {
  service = await startTestService()
  sql = await openSql(service.dataDirectory)
})

afterAll(async () => {
  await sql.close()
  await service.close()
})
/** Routes that accept a body. */
const bodyRoutes = [
  { group: 'plants', path: '/plants' },
  { group: 'chat', path: '/chat/completions' },
  { group: 'chat', path: '/v1/chat/completions' },
] as const

/** The number of plants. Records of the ledger are not counted, since they are written a moment after each chat request. */
async function plantsWritten(): Promise<number | undefined> {
  const [row] = await sql.run<{ readonly plants: number }>('SELECT count(*) AS plants FROM plants')
  return row?.plants
}

/** The headers of a raw request that closes its connection. */
function head(method: string, path: string, ...more: readonly string[]): string {
  const lines = ['Host: x', 'Connection: close', `Authorization: Bearer ${service.key}`, ...more]
  return `${method} ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`
}

describe('HTTP that is malformed', () => {
  it.for([
    ['plants', 'a header without a colon', 'GET /plants HTTP/1.1\r\nHost: x\r\nBROKEN\r\n\r\n'],
    ['plants', 'a blank in a header’s name', 'GET /plants?limit=2 HTTP/1.1\r\nHost: x\r\nA B: c\r\n\r\n'],
    ['plants', 'a NUL in a header', 'GET /plants/7 HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n'],
    ['plants', 'an unknown method', 'FETCH /plants HTTP/1.1\r\nHost: x\r\n\r\n'],
    ['plants', 'a negative length', 'POST /plants HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n'],
    ['plants', 'two lengths', 'POST /plants HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}'],
    [
      'plants',
      'a length and chunks, as in request smuggling',
      'POST /plants HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    ['plants', 'an unknown version', 'GET /plants HTTP/9.9\r\nHost: x\r\n\r\n'],
    ['chat', 'a header without a colon', 'GET /models HTTP/1.1\r\nHost: x\r\nBROKEN\r\n\r\n'],
    ['chat', 'another path that begins alike', 'GET /plantsandmore HTTP/1.1\r\nHost: x\r\nBROKEN\r\n\r\n'],
    ['chat', 'a length of letters', 'POST /chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n'],
    ['chat', 'no HTTP', 'CANARY\r\n\r\n'],
    ['chat', 'a hello of TLS', '\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03'],
  ] as const)('is a 400 in the error format of %s: %s', async ([group, , bytes]) => {
    const refusal = await expectError(await sendRaw(service.url, bytes), group, 400)
    expect(refusal.everything).not.toContain('CANARY')
    if (group === 'chat') expect(refusal).toMatchObject({ code: 'malformed_http', param: null })
  })

  it.for([
    ['plants', 400, 'no Host', 'GET /plants HTTP/1.1\r\nConnection: close\r\n\r\n'],
    ['chat', 400, 'no Host', 'GET /models HTTP/1.1\r\nConnection: close\r\n\r\n'],
    ['plants', 417, 'an expectation', 'GET /plants HTTP/1.1\r\nHost: x\r\nExpect: cake\r\nConnection: close\r\n\r\n'],
    ['chat', 417, 'an expectation', 'GET /models HTTP/1.1\r\nHost: x\r\nExpect: cake\r\nConnection: close\r\n\r\n'],
  ] as const)('is refused in the error format of %s: %i for %s', async ([group, status, , bytes]) => {
    await expectError(await sendRaw(service.url, bytes), group, status)
  })

  it.for([
    ['Host: y', 'Host'],
    ['Authorization: Bearer y', 'Authorization'],
    ['Content-Type: application/json', 'Content-Type'],
    ['IDEMPOTENCY-KEY: k1', 'Idempotency-Key'],
    ['Origin: https://a.example', 'Origin'],
  ] as const)('with two headers where one belongs is a 400, and nothing is written: %s', async ([line, name]) => {
    const before = await plantsWritten()
    const once = ['Content-Type: application/json', 'idempotency-key: k1', 'origin: https://a.example']
    for (const { group, path } of bodyRoutes) {
      const request = `${head('POST', path, ...once, 'Content-Length: 12', line)}{"name":"a"}`
      const refusal = await expectError(await sendRaw(service.url, request), group, 400)
      expect(refusal.message).toBe(`The request has two ${name} headers. Send exactly one.`)
    }
    expect(await plantsWritten()).toBe(before)
  })

  it.for([
    'Transfer-Encoding: gzip, chunked',
    'Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked',
    'Transfer-Encoding: CHUNKED, chunked',
    'Transfer-Encoding: x;a="chunked", chunked',
    'Transfer-Encoding: identity',
  ])('with another transfer coding is a 501 or no HTTP, and nothing behind it is done: %s', async (coding) => {
    const before = await plantsWritten()
    for (const { group, path } of bodyRoutes) {
      const start = head('POST', path, 'Content-Type: application/json', coding).replace('Connection: close\r\n', '')
      const plant = '{"name":"a"}'
      const behind = `${head('POST', '/plants', 'Content-Type: application/json', 'Content-Length: 12')}${plant}`
      const status = coding.includes('CHUNKED') ? 400 : 501
      const bytes = `${start}c\r\n${plant}\r\n0\r\n\r\n${behind}`
      const refusal = await expectError(await sendRaw(service.url, bytes), group, status)
      expect(refusal.everything.match(/HTTP\/1\.1 /g)).toBeNull()
    }
    expect(await plantsWritten()).toBe(before)
  })

  it.for(['chunked', 'Chunked'])('is no transfer coding %s', async (coding) => {
    const start = head('POST', '/plants', 'Content-Type: application/json', `Transfer-Encoding: ${coding}`)
    const reply = await sendRaw(service.url, `${start}c\r\n{"name":"a"}\r\n0\r\n\r\n`)
    expect(reply.status).toBe(200)
  })

  it.for(['gzip', 'br', 'x-none', 'identity, gzip', 'GZIP'])(
    'is not a body in a content coding: a 415 with the codings that are accepted, for %s',
    async (coding) => {
      for (const { group, path } of bodyRoutes) {
        const headers = { 'content-type': 'application/json', 'content-encoding': coding }
        const reply = await service.request(path, { method: 'POST', body: gzipSync('{"name":"a"}'), headers })
        expect(reply.headers.get('accept-encoding')).toBe('identity')
        const { message } = await expectError(reply, group, 415)
        expect(message).toContain('Content-Encoding')
      }
    },
  )

  it('is not a body with the coding identity', async () => {
    const headers = { 'content-encoding': 'Identity' }
    expect((await service.request('/plants', { json: { name: 'a' }, headers })).status).toBe(200)
  })

  it('in the middle of a body is a 400 too, and nothing is written', async () => {
    for (const { group, path } of bodyRoutes) {
      const before = await plantsWritten()
      const start = head('POST', path, 'Content-Type: application/json', 'Transfer-Encoding: chunked')
      await expectError(await sendRaw(service.url, `${start}not a length\r\n{}\r\n0\r\n\r\n`), group, 400)
      expect(await plantsWritten()).toBe(before)
    }
  })

  it('behind a request whose reply is being sent is answered after that reply, and not within it', async () => {
    // 8 MB, far more than the sockets' buffers hold: the reply is incomplete until it is read.
    await sql.insert(
      'plants',
      Array.from({ length: 4000 }, (_, index) => ({
        account: 1,
        id: 1_000_001 + index,
        name: '🌵'.repeat(255),
        tag: '🌵'.repeat(255),
      })),
    )
    onTestFinished(async () => void (await sql.run('DELETE FROM plants WHERE id > 1000000')))
    const { hostname, port } = new URL(service.url)
    const socket = connect(Number(port), hostname)
    socket.write(`GET /plants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${service.key}\r\n\r\n`)
    const pieces: Buffer[] = await once(socket, 'data')
    socket.pause()
    socket.write('BROKEN\r\n\r\n')
    expect((await service.request('/livez')).status).toBe(200)
    socket.on('data', (piece) => pieces.push(Buffer.from(piece)))
    socket.resume()
    await once(socket, 'close')
    const text = Buffer.concat(pieces).toString('latin1')
    expect(text).toMatch(/^HTTP\/1\.1 200 /)
    const [whole, refusal = ''] = text.split('HTTP/1.1 400 ')
    expect(whole).toMatch(/\]\r\n0\r\n\r\n$/)
    expect(refusal).toMatch(/Connection: close\r\n\r\n.*well-formed HTTP/)
  })

  it('with too large headers is a 431', async () => {
    for (const [group, path] of [
      ['plants', '/plants'],
      ['chat', '/chat/completions'],
    ] as const) {
      const one = await sendRaw(service.url, head('GET', path, `X-Long: ${'CANARY'.repeat(4000)}`))
      const refusal = await expectError(one, group, 431)
      expect(refusal.everything).not.toContain('CANARY')
      const many = Array.from({ length: 1200 }, (_, index) => `X-Header-${index}: CANARY`)
      await expectError(await sendRaw(service.url, head('GET', path, ...many)), group, 431)
    }
  })

  it.for([
    ['plants', '/plants/%zz', 400],
    ['plants', '/plants/%E0%A4%A', 400],
    ['plants', '/plants/%', 400],
    ['chat', '/models/%zz', 400],
    ['chat', '/%zz/plants', 400],
  ] as const)('in the path is refused in the error format of %s: %s', async ([group, path, status]) => {
    const { everything } = await expectError(await sendRaw(service.url, head('GET', path)), group, status)
    expect(everything).not.toContain('zz')
  })

  it('with too long a path is a 414', async () => {
    await expectError(await service.request(`/plants/${'7'.repeat(1001)}`), 'plants', 414)
  })
})
