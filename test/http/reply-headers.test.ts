import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError, sendRaw } from '../support/http.ts'
import { type RequestOptions, startTestService, type TestService } from '../support/service.ts'

let service: TestService

beforeAll(async () => {
  service = await startTestService({ METRICS_PORT: '0', CHAT_BODY_LIMIT: '2000' })
})

afterAll(() => service?.close())

const chat = { model: 'understudy', messages: [{ role: 'user', content: 'Hello' }] }
const keyless = { headers: { authorization: null } }

type Call = readonly [status: number, path: string, options?: RequestOptions]

/** Sends a request, expects this status, and reads the body. @returns the reply's headers */
async function headersOf([status, path, options]: Call): Promise<Headers> {
  const response = await service.request(path, options)
  await response.arrayBuffer()
  expect([path, response.status]).toEqual([path, status])
  return response.headers
}

describe('caching', () => {
  test.for<Call>([
    [200, '/chat/completions', { json: chat }],
    [200, '/v1/chat/completions', { json: chat }],
    [200, '/chat/prompt', { json: chat }],
    [400, '/chat/completions', { json: {} }],
    [400, '/chat/prompt', { body: '{', headers: { 'content-type': 'application/json' } }],
    [401, '/chat/completions', { json: chat, ...keyless }],
    [404, '/chat/completions', { json: { ...chat, model: 'nobody' } }],
    [413, '/chat/completions', { json: { ...chat, user: 'x'.repeat(3000) } }],
    [201, '/keys', { json: { scopes: ['chat'] } }],
  ])('is forbidden for conversations and new keys: %i %s', async (call) => {
    expect((await headersOf(call)).get('cache-control')).toBe('no-store')
  })

  test('is forbidden for a rotated key', async () => {
    const response = await service.request('/keys', { json: { scopes: ['chat'] } })
    const made: { readonly id: string } = JSON.parse(await response.text())
    const headers = await headersOf([201, `/keys/${made.id}/rotate`, { json: { overlap_seconds: 1 } }])
    expect(headers.get('cache-control')).toBe('no-store')
  })

  test('is forbidden for a stream', async () => {
    const headers = await headersOf([200, '/chat/completions', { json: { ...chat, stream: true } }])
    expect(headers.get('cache-control')).toBe('no-cache, no-store')
  })

  test.for<Call>([
    [200, '/plants'],
    [200, '/plants', { json: { name: 'Monstera' } }],
    [404, '/plants/987654'],
    [400, '/plants?limit=0'],
    [401, '/plants', keyless],
    [200, '/keys'],
    [200, '/characters'],
    [200, '/models'],
    [200, '/usage'],
    [404, '/requests/req_none'],
    [404, '/nothing'],
    [405, '/plants/7', { method: 'PUT' }],
    [400, '/plants/%zz'],
  ])('is only private, and must revalidate: %i %s', async (call) => {
    expect((await headersOf(call)).get('cache-control')).toBe('private, no-cache')
  })

  test('of a list of plants revalidates with a 304 while the list does not change', async () => {
    const first = await headersOf([200, '/plants'])
    const known = { 'if-none-match': first.get('etag') ?? '' }
    const again = await headersOf([304, '/plants', { headers: known }])
    expect([again.get('etag'), again.get('cache-control')]).toEqual([first.get('etag'), 'private, no-cache'])
  })

  test.each(['/docs/', '/openapi.json'])('is public for documents: %s', async (path) => {
    expect((await headersOf([200, path])).get('cache-control')).toBe('public, max-age=300')
  })
})

describe('no browser guesses the type of a reply', () => {
  test.for<Call>([
    [200, '/livez', keyless],
    [200, '/readyz', keyless],
    [200, '/', keyless],
    [200, '/', { headers: { authorization: null, accept: 'text/html' } }],
    [200, '/docs', keyless],
    [200, '/openapi.json', keyless],
    [200, '/plants'],
    [200, '/plants', { json: { name: 'Calathea' } }],
    [400, '/plants', { body: '{', headers: { 'content-type': 'application/json' } }],
    [401, '/plants', keyless],
    [400, '/plants/%zz'],
    [404, '/nothing'],
    [200, '/chat/completions', { json: chat }],
    [200, '/chat/completions', { json: { ...chat, stream: true } }],
    [200, '/chat/prompt', { json: chat }],
    [200, '/characters/Fern?format=png'],
    [200, '/characters/Fern?format=json'],
    [200, '/keys'],
  ])('the reply %i to %s has nosniff', async (call) => {
    expect((await headersOf(call)).get('x-content-type-options')).toBe('nosniff')
  })

  test.each([
    ['data that is not HTTP', 'HELLO\r\n\r\n', 400],
    ['a header without a colon', 'GET /plants HTTP/1.1\r\nHost: x\r\nBROKEN\r\n\r\n', 400],
    ['no Host', 'GET /plants HTTP/1.1\r\nConnection: close\r\n\r\n', 400],
    ['too long headers', `GET /plants HTTP/1.1\r\nHost: x\r\nA: ${'b'.repeat(20_000)}\r\n\r\n`, 431],
  ] as const)('the parser’s errors have nosniff too: %s', async (_, bytes, status) => {
    const { headers, status: given } = await sendRaw(service.url, bytes)
    expect(given).toBe(status)
    expect(headers.get('x-content-type-options')).toBe('nosniff')
    expect(headers.get('cache-control')).toBe('private, no-cache')
  })

  test.each(['/metrics', '/'])('replies of the metrics port have nosniff too: %s', async (path) => {
    const { headers } = await fetch(service.metricsUrl + path)
    expect(headers.get('x-content-type-options')).toBe('nosniff')
    expect(headers.get('cache-control')).toBe('no-store')
  })
})

describe('a request that two servers may read in two ways', () => {
  const plant = '{"name":"Smuggled"}'
  const keyed = () => `Authorization: Bearer ${service.key}\r\n`

  test.each([
    ['two hosts', 'GET /plants HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n'],
    ['two hosts, in any case', 'GET /plants HTTP/1.1\r\nHost: a.example\r\nX: y\r\nhOST: b.example\r\n\r\n'],
    ['the same host twice', 'GET /plants HTTP/1.1\r\nHost: a.example\r\nHost: a.example\r\n\r\n'],
    ['two hosts in HTTP/1.0', 'GET /plants HTTP/1.0\r\nHost: a\r\nHost: b\r\nConnection: keep-alive\r\n\r\n'],
  ])('is refused, and its connection closed: %s', async (_, bytes) => {
    const refusal = await expectError(await sendRaw(service.url, bytes), 'plants', 400)
    expect(refusal.message).toContain('Host')
  })

  test.each(['0.9', '1.0', '2.0'])(
    'is refused for chunks in HTTP/%s, and neither it nor the request behind it is run',
    async (version) => {
      const json = `${keyed()}Content-Type: application/json\r\nConnection: keep-alive\r\n`
      const piece = `${plant.length.toString(16)}\r\n${plant}\r\n0\r\n\r\n`
      const next = `POST /plants HTTP/1.1\r\nHost: x\r\n${json}Content-Length: ${plant.length}\r\n\r\n${plant}`
      const bytes = `POST /plants HTTP/${version}\r\nHost: x\r\n${json}Transfer-Encoding: chunked\r\n\r\n${piece}${next}`
      const refusal = await expectError(await sendRaw(service.url, bytes), 'plants', 400)
      expect(refusal.message).toContain('Transfer-Encoding')
      expect(await (await service.request('/plants')).text()).not.toContain('Smuggled')
    },
  )

  test('is neither an HTTP/1.1 request with one Host nor an HTTP/1.0 request without a Host', async () => {
    const one = await sendRaw(service.url, `GET /plants HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${keyed()}\r\n`)
    const none = await sendRaw(service.url, `GET /plants HTTP/1.0\r\n${keyed()}\r\n`)
    expect([one.status, none.status]).toEqual([200, 200])
  })
})
