import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { PassThrough } from 'node:stream'
import { gunzipSync } from 'node:zlib'
import Fastify from 'fastify'
import { request } from 'undici'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { openAiErrorBody } from '../../src/errors.ts'
import { documentsPlugin } from '../../src/http/documents.ts'
import { errorHandler } from '../../src/http/errors.ts'
import { Readers } from '../../src/http/kept-document.ts'
import { readChatError } from '../support/chat.ts'
import { startTestService, type TestService } from '../support/service.ts'

let service: TestService

beforeAll(async () => {
  service = await startTestService()
})

afterAll(() => service?.close())

/** As a browser asks: without a key. */
function get(path: string, method = 'GET'): Promise<Response> {
  return fetch(service.url + path, { method, redirect: 'manual' })
}

describe('the API reference', () => {
  test('is at /docs/, where /docs leads', async () => {
    const redirect = await get('/docs')
    expect(redirect.status).toBe(301)
    expect(redirect.headers.get('location')).toBe('/docs/')
    const page = await get('/docs/')
    expect(page.status).toBe(200)
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(await page.text()).toContain('<title>Conservatory</title>')
  })

  test('has its script from here, the one of the package', async () => {
    const html = await (await get('/docs/')).text()
    const sources = [...html.matchAll(/<script[^>]*\ssrc="([^"]*)"/g)].map(([, source]) => source ?? '')
    expect(sources).toHaveLength(1)
    const script = await get(new URL(sources[0] ?? '', `${service.url}/docs/`).pathname)
    expect(script.status).toBe(200)
    expect(script.headers.get('content-type')).toMatch(/^application\/javascript/)
    const text = await script.text()
    expect(text.length).toBeGreaterThan(1_000_000)
    const installed = readFileSync(createRequire(import.meta.url).resolve('@scalar/fastify-api-reference'), 'utf8')
    expect(installed).toContain(JSON.stringify(text.slice(0, 200)).slice(1, -1))
  })

  test('names no other host: no CDN, no fonts, no proxy', async () => {
    const html = await (await get('/docs/')).text()
    for (const [, link] of html.matchAll(/\s(?:src|href|action|data|srcset)="([^"]*)"/g)) {
      expect(link).not.toMatch(/^(?:[a-z]+:)?\/\//i)
    }
    expect(html).not.toMatch(/[a-z]+:\/\/|"\/\/|\bimport\b|@import|url\(|cdn|fonts\.|proxy/i)
    expect(html).not.toMatch(/<(?:link|iframe|img|object|embed|base|meta http-equiv)\b/i)
  })

  test('reads the document of this service, and offers nothing that would call home', async () => {
    const html = await (await get('/docs/')).text()
    const written = /createApiReference\('#app', (\{.*?\})\)/s.exec(html)?.[1] ?? ''
    const configuration: Record<string, unknown> = JSON.parse(written)
    expect(configuration).toMatchObject({
      url: '/openapi.json',
      withDefaultFonts: false,
      telemetry: false,
      showDeveloperTools: 'never',
      hideClientButton: true,
      agent: { disabled: true },
      mcp: { disabled: true },
    })
    expect(configuration).not.toHaveProperty('proxyUrl')
    expect((await get(String(configuration['url']))).status).toBe(200)
  })

  test.each(['/docs/', '/docs/js/scalar.js'])('forbids the browser every other host: %s', async (path) => {
    const policy = (await get(path)).headers.get('content-security-policy') ?? ''
    const directives = new Map(
      policy.split(';').map((directive): [string, readonly string[]] => {
        const [name = '', ...sources] = directive.trim().split(/\s+/)
        return [name, sources]
      }),
    )
    expect(directives.get('default-src')).toEqual(["'self'"])
    for (const name of ['script-src', 'style-src', 'img-src', 'font-src', 'connect-src', 'worker-src']) {
      expect(directives.get(name)).toContain("'self'")
    }
    const harmless = new Set(["'self'", "'none'", "'unsafe-inline'", "'unsafe-eval'", 'data:', 'blob:'])
    expect([...directives.values()].flat().filter((source) => !harmless.has(source))).toEqual([])
    expect(directives.get('connect-src')).toEqual(["'self'"])
    expect(directives.get('frame-ancestors')).toEqual(["'none'"])
  })

  test.each([
    '/docs/nothing',
    '/docs/js/',
    '/docs/../package.json',
    '/docs/..%2f..%2fpackage.json',
    '/docs/%2e%2e/package.json',
    '/docs/js/scalar.js.map',
    '/docs/js/..%2f..%2f..%2f..%2fetc%2fpasswd',
    '/docs//',
    '/docs//evil.example',
    '/docs/openapi.json',
  ])('has nothing else: %s', async (path) => {
    const response = await get(path)
    expect(response.status).toBe(404)
    expect(response.headers.get('content-type')).toMatch(/^application\/json/)
    expect(response.headers.get('location')).toBeNull()
    await readChatError(response)
  })

  test.each(['POST', 'PUT', 'DELETE', 'PATCH'])('is only for reading: %s', async (method) => {
    const response = await get('/docs/', method)
    expect(response.status).toBe(405)
    expect(response.headers.get('allow')?.split(', ')).toEqual(expect.arrayContaining(['GET', 'HEAD']))
    await readChatError(response)
  })

  test('tells its size to HEAD without the page', async () => {
    const response = await get('/docs/', 'HEAD')
    expect(response.status).toBe(200)
    expect(await response.text()).toBe('')
  })
})

describe('each document', () => {
  const paths = ['/docs/', '/docs/js/scalar.js', '/openapi.json']
  const ask = (path: string, headers: Readonly<Record<string, string>>) =>
    request(service.url + path, { method: 'GET', headers })

  test.each(paths)('is compressed for those who take it, and the same for all others: %s', async (path) => {
    const plain = await ask(path, {})
    const whole = Buffer.from(await plain.body.arrayBuffer())
    expect(plain.headers).toMatchObject({ vary: 'accept-encoding', 'content-length': String(whole.length) })
    expect(plain.headers).not.toHaveProperty('content-encoding')
    for (const accepted of ['gzip', 'br, gzip;q=0.5', 'GZIP', '*', 'identity, *;q=0.1']) {
      const { headers, body } = await ask(path, { 'accept-encoding': accepted })
      const compressed = Buffer.from(await body.arrayBuffer())
      expect(headers).toMatchObject({
        vary: 'accept-encoding',
        'content-encoding': 'gzip',
        'content-length': String(compressed.length),
        'content-type': plain.headers['content-type'],
      })
      expect(gunzipSync(compressed).equals(whole)).toBe(true)
      expect(headers['etag']).not.toBe(plain.headers['etag'])
    }
    for (const accepted of ['', 'br', 'gzip;q=0', '*;q=0', 'gzip;q=0, *']) {
      const { headers, body } = await ask(path, { 'accept-encoding': accepted })
      expect(headers).not.toHaveProperty('content-encoding')
      expect(Buffer.from(await body.arrayBuffer()).equals(whole)).toBe(true)
    }
  })

  test.each(paths)('is not sent again to those who have it: %s', async (path) => {
    for (const encoding of ['identity', 'gzip']) {
      const headers = { 'accept-encoding': encoding }
      const first = await ask(path, headers)
      await first.body.dump()
      expect(first.headers['cache-control']).toBe('public, max-age=300')
      const tag = String(first.headers['etag'])
      for (const known of [tag, `W/${tag}`, `"a", ${tag}`, '*']) {
        const { statusCode, headers: again, body } = await ask(path, { ...headers, 'if-none-match': known })
        expect([statusCode, again['etag'], await body.text()]).toEqual([304, tag, ''])
      }
      const other = await ask(path, { ...headers, 'if-none-match': '"a"' })
      await other.body.dump()
      expect(other.statusCode).toBe(200)
    }
  })

  test('is read by only so many at a time', async () => {
    const app = Fastify()
    onTestFinished(() => app.close())
    app.setErrorHandler(errorHandler(openAiErrorBody))
    await app.register(documentsPlugin)
    const open = () => app.inject({ url: '/docs/js/scalar.js', payloadAsStream: true })
    await app.inject('/docs/js/scalar.js')
    const replies = await Promise.all(Array.from({ length: 64 }, open))
    expect(replies.map(({ statusCode }) => statusCode)).toEqual(replies.map(() => 200))
    const refused = await app.inject('/openapi.json')
    expect(refused.statusCode).toBe(503)
    expect(refused.headers).toMatchObject({ 'retry-after': '1', 'cache-control': 'no-store' })
    expect(refused.json()).toMatchObject({ error: { code: 'overloaded' } })
    expect((await app.inject({ url: '/openapi.json', headers: { 'if-none-match': '*' } })).statusCode).toBe(304)
  })

  test('frees a place when a reply is over, or its reader leaves', async () => {
    const readers = new Readers(2)
    const [one, two] = [new PassThrough(), new PassThrough()]
    readers.enter(one)
    readers.enter(two)
    const refused = expect.objectContaining({ status: 503, code: 'overloaded' })
    expect(() => readers.enter(new PassThrough())).toThrow(refused)
    one.destroy()
    two.end().resume()
    await Promise.all([once(one, 'close'), once(two, 'close')])
    readers.enter(new PassThrough())
    readers.enter(new PassThrough())
    expect(() => readers.enter(new PassThrough())).toThrow(refused)
  })
})
