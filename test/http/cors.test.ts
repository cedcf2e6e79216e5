import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readConfig } from '../../src/config.ts'
import { exposedHeaders } from '../../src/http/cors.ts'
import { expectError, sendRaw } from '../support/http.ts'
import { startTestService, type TestService } from '../support/service.ts'

const page = 'https://page.example'
let some: TestService
let all: TestService
let none: TestService

beforeAll(async () => {
  some = await startTestService({ CORS_ORIGINS: `${page}, http://127.0.0.1:8080` })
  all = await startTestService({ CORS_ORIGINS: '*' })
  none = await startTestService()
})

afterAll(async () => {
  for (const service of [some, all, none]) await service?.close()
})

function preflight(service: TestService, path: string, origin = page): Promise<Response> {
  return service.request(path, {
    method: 'OPTIONS',
    headers: {
      authorization: null,
      origin,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization,content-type,idempotency-key,x-stainless-os',
    },
  })
}

const ofCors = (response: Response) => [...response.headers.keys()].filter((name) => name.startsWith('access-control-'))

describe('a preflight', () => {
  test.each(['/plants', '/plants/1', '/chat/completions', '/v1/responses', '/models', '/characters', '/livez'])(
    'to %s is a 204 without a key',
    async (path) => {
      const response = await preflight(some, path)
      expect(response.status).toBe(204)
      expect(await response.text()).toBe('')
      expect(Object.fromEntries(response.headers)).toMatchObject({
        'access-control-allow-origin': page,
        'access-control-allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE',
        'access-control-allow-headers': 'authorization,content-type,idempotency-key,x-stainless-os',
        'access-control-max-age': '600',
      })
      expect(response.headers.get('vary')).toMatch(/origin/i)
      expect(response.headers.has('access-control-allow-credentials')).toBe(false)
    },
  )

  test.each(['/', '/openapi.json', '/models'])(
    'is followed by a reply that varies with the origin: %s',
    async (path) => {
      const response = await some.request(path, { headers: { origin: page } })
      expect(response.headers.get('access-control-allow-origin')).toBe(page)
      expect(response.headers.get('vary')).toMatch(/\borigin\b/i)
      if (path !== '/models') expect(response.headers.get('vary')).toMatch(/\baccept-encoding\b/i)
    },
  )

  test('of another origin gets no header that allows the request', async () => {
    const response = await preflight(some, '/plants', 'https://other.example')
    expect(response.headers.has('access-control-allow-origin')).toBe(false)
  })

  test('of any origin is allowed with *', async () => {
    const response = await preflight(all, '/plants', 'https://other.example')
    expect(response.headers.get('access-control-allow-origin')).toBe('*')
  })

  test.each(['/metrics', '/metrics?x', '/%6detrics', '/%6D%65trics?x'])('to %s is refused', async (path) => {
    const response = await preflight(all, path)
    await expectError(response, 'chat', 405)
    expect(ofCors(response)).toEqual([])
  })

  test.each([
    ['plants', '/plants', 400, 'Host: y'],
    ['chat', '/models', 400, 'Origin: https://b.example'],
    ['plants', '/plants/7', 417, 'Expect: cake'],
    ['chat', '/%zz', 400, 'X: y'],
  ] as const)('that is faulty gets an error in the format of %s: %s, %i', async (group, path, status, line) => {
    const lines = ['Host: x', 'Connection: close', `Origin: ${page}`, 'Access-Control-Request-Method: POST', line]
    const bytes = `OPTIONS ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`
    await expectError(await sendRaw(some.url, bytes), group, status)
  })

  test('is a 405 that names the setting if no origin is set', async () => {
    const response = await preflight(none, '/plants')
    expect(response.status).toBe(405)
    expect(await response.text()).toContain('CORS_ORIGINS')
    expect(ofCors(response)).toEqual([])
  })
})

describe('a reply to a page', () => {
  const chat = { model: 'understudy', messages: [{ role: 'user', content: 'Hello' }] }

  test.each<readonly [what: string, status: number, path: string, json: object | null]>([
    ['a list', 200, '/plants', null],
    ['a whole completion', 200, '/chat/completions', chat],
    ['a stream', 200, '/chat/completions', { ...chat, stream: true }],
    ['an error', 400, '/chat/completions', {}],
    ['an unknown path', 404, '/nowhere', null],
  ])('allows the origin of the page, and exposes headers: %s', async (_what, status, path, json) => {
    const response = await some.request(path, { headers: { origin: page }, ...(json ? { json } : {}) })
    await response.text()
    expect(response.status).toBe(status)
    expect(response.headers.get('access-control-allow-origin')).toBe(page)
    expect(response.headers.get('access-control-expose-headers')).toBe(exposedHeaders.join(', '))
  })

  test('allows the origin of the page also without a key', async () => {
    const response = await some.request('/plants', { headers: { origin: page, authorization: null } })
    expect(response.status).toBe(401)
    expect(response.headers.get('access-control-allow-origin')).toBe(page)
  })

  test.each(['/metrics', '/%6detrics'])('of %s allows no page', async (path) => {
    const response = await all.request(path, { headers: { origin: page } })
    expect(response.status).toBe(200)
    expect(ofCors(response)).toEqual([])
  })

  test('has no CORS headers if no origin is set', async () => {
    const response = await none.request('/plants', { headers: { origin: page } })
    expect(ofCors(response)).toEqual([])
    expect(response.headers.get('vary')).toBeNull()
  })
})

test('every x- header of the service is exposed, except those for browsers and proxies', () => {
  // These headers are for the browser itself, or for proxies.
  const others = ['x-accel-buffering', 'x-content-type-options', 'x-forwarded-for', 'x-frame-options']
  const source = join(import.meta.dirname, '../../src')
  const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'))
  const names = files.flatMap(
    (file) => readFileSync(join(source, file), 'utf8').match(/(?<=['`])x-[a-z][a-z-]*/g) ?? [],
  )
  const exposed = exposedHeaders.map((name) => name.toLowerCase())
  const missing = [...new Set(names)].filter(
    (name) =>
      !others.includes(name) && !exposed.some((each) => each === name || (name.endsWith('-') && each.startsWith(name))),
  )
  expect(missing).toEqual([])
})

describe('CORS_ORIGINS', () => {
  test.each([
    ['https://a.example/path', 'give https://a.example'],
    ['https://a.example/', 'give https://a.example'],
    ['https://a.example:443', 'give https://a.example'],
    ['HTTPS://a.example', 'give https://a.example'],
    ['https://A.example', 'give https://a.example'],
    ['a.example', 'scheme and a host'],
    ['*,https://a.example', '* alone'],
  ])('with the value %s stops the start with a sentence', (written, advice) => {
    expect(() => readConfig({ CORS_ORIGINS: written })).toThrow(advice)
  })

  test('accepts origins of apps and extensions too', () => {
    const written = 'http://localhost:5173, capacitor://localhost, chrome-extension://abcdef'
    expect(readConfig({ CORS_ORIGINS: written }).corsOrigins).toHaveLength(3)
  })
})
