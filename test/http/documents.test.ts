import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { connect } from 'node:net'
import { PassThrough } from 'node:stream'
import { runInNewContext } from 'node:vm'
import { gunzipSync } from 'node:zlib'
import { request } from 'undici'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { readConfig } from '../../src/config.ts'
import { ReaderLimit } from '../../src/http/cached-document.ts'
import { readChatError } from '../support/chat.ts'
import { expectError } from '../support/http.ts'
import { serviceForThisTest, startTestService, type TestService } from '../support/service.ts'

/** The fields of the document that these tests read. */
interface OpenApi {
  readonly components: { readonly securitySchemes: Readonly<Record<string, unknown>> }
  readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly security: unknown }>>>>
}

let service: TestService

beforeAll(async () => {
  service = await startTestService()
})

afterAll(() => service?.close())

/** Requests a path without a key, as a browser does. */
function get(path: string, method = 'GET'): Promise<Response> {
  return fetch(service.url + path, { method, redirect: 'manual' })
}

describe('the API reference', () => {
  test('is at /docs/, and /docs redirects to it', async () => {
    const redirect = await get('/docs')
    expect(redirect.status).toBe(301)
    expect(redirect.headers.get('location')).toBe('/docs/')
    const page = await get('/docs/')
    expect(page.status).toBe(200)
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(await page.text()).toContain('<title>Conservatory</title>')
  })

  test('loads its scripts and styles from this service, and the files of Swagger UI are unchanged', async () => {
    const html = await (await get('/docs/')).text()
    const named = [...html.matchAll(/<(?:script|link rel="stylesheet")[^>]*\s(?:src|href)="([^"]*)"/g)]
    const paths = named.map(([, name = '']) => new URL(name, `${service.url}/docs/`).pathname)
    expect(paths.toSorted()).toEqual(['/docs/reader.js', '/docs/swagger-ui.css', '/docs/swagger-ui.js'])
    const resolve = createRequire(import.meta.url).resolve
    for (const [path, type, file] of [
      ['/docs/reader.js', 'text/javascript', resolve('../../openapi/reader/reader.js')],
      ['/docs/swagger-ui.js', 'text/javascript', resolve('@fastify/swagger-ui/static/swagger-ui-bundle.js')],
      ['/docs/swagger-ui.css', 'text/css', resolve('@fastify/swagger-ui/static/swagger-ui.css')],
    ] as const) {
      const response = await get(path)
      expect([response.status, response.headers.get('content-type')]).toEqual([200, `${type}; charset=utf-8`])
      expect(await response.text()).toBe(readFileSync(file, 'utf8'))
    }
  })

  test('has no inline script or style, which its policy would block', async () => {
    const html = await (await get('/docs/')).text()
    for (const [, attributes, text] of html.matchAll(/<script\b([^>]*)>(.*?)<\/script>/gs)) {
      expect([attributes, text]).toEqual([expect.stringContaining('src='), ''])
    }
    expect(html).not.toMatch(/<style\b|\sstyle=|\son[a-z]+=|javascript:/i)
  })

  test('names no other host: no CDN, font server, proxy or validator', async () => {
    const html = await (await get('/docs/')).text()
    for (const [, link] of html.matchAll(/\s(?:src|href|action|data|srcset)="([^"]*)"/g)) {
      expect(link).not.toMatch(/^(?:[a-z]+:)?\/\//i)
    }
    expect(html).not.toMatch(/[a-z]+:\/\/|"\/\/|@import|url\(|cdn|fonts\.|proxy/i)
    expect(html).not.toMatch(/<(?:iframe|img|object|embed|base|meta http-equiv)\b/i)
    const script = await (await get('/docs/reader.js')).text()
    expect(script).not.toMatch(/[a-z]+:\/\//)
    expect(script).toContain("fetch('/openapi.json')")
    expect(script).toContain('validatorUrl: null')
  })

  test('shows one way to send a key, which every route accepts', async () => {
    const document: OpenApi = JSON.parse(await (await get('/openapi.json')).text())
    const shown: OpenApi[] = []
    const element = {}
    const reader = await (await get('/docs/reader.js')).text()
    await runInNewContext(`(async () => {${reader}})()`, {
      window: { SwaggerUIBundle: ({ spec }: { spec: OpenApi }) => shown.push(spec) },
      document: { querySelector: () => element },
      fetch: async () => ({ ok: true, json: async () => document }),
    })
    const operations = Object.values(shown[0]?.paths ?? {}).flatMap((path) => Object.values(path))
    expect(Object.keys(shown[0]?.components.securitySchemes ?? {})).toEqual(['bearer'])
    expect(operations.length).toBeGreaterThan(15)
    for (const { security } of operations) expect(security).toEqual([{ bearer: [] }])
    for (const path of ['/plants', '/keys', '/characters', '/models', '/usage']) {
      expect((await service.request(path)).status).toBe(200)
    }
  })

  test.each(['/docs', '/docs/', '/docs/reader.js', '/docs/swagger-ui.js', '/docs/swagger-ui.css'])(
    'lets the browser run scripts of this service only, and call no other host: %s',
    async (path) => {
      const { headers } = await get(path)
      expect(headers.get('cross-origin-opener-policy')).toBe('same-origin')
      const policy = headers.get('content-security-policy') ?? ''
      const directives = new Map(
        policy.split(';').map((directive): [string, readonly string[]] => {
          const [name = '', ...sources] = directive.trim().split(/\s+/)
          return [name, sources]
        }),
      )
      expect(Object.fromEntries(directives)).toEqual({
        'default-src': ["'none'"],
        'script-src': ["'self'"],
        'style-src': ["'self'"],
        'img-src': ["'self'", 'data:', 'blob:'],
        'connect-src': ["'self'"],
        'base-uri': ["'none'"],
        'form-action': ["'none'"],
        'frame-ancestors': ["'none'"],
      })
    },
  )

  test.each([
    '/docs/nothing',
    '/docs/static/',
    '/docs/../package.json',
    '/docs/..%2f..%2fpackage.json',
    '/docs/%2e%2e/package.json',
    '/docs/swagger-ui.js.map',
    '/docs/static/..%2f..%2f..%2f..%2fetc%2fpasswd',
    '/docs//',
    '/docs//evil.example',
    '/docs/openapi.json',
  ])('has no other files: %s', async (path) => {
    const response = await get(path)
    expect(response.status).toBe(404)
    expect(response.headers.get('content-type')).toMatch(/^application\/json/)
    expect(response.headers.get('location')).toBeNull()
    await readChatError(response)
  })

  test.each(['POST', 'PUT', 'DELETE', 'PATCH'])('is read-only: %s', async (method) => {
    const response = await get('/docs/', method)
    expect(response.status).toBe(405)
    expect(response.headers.get('allow')?.split(', ')).toEqual(expect.arrayContaining(['GET', 'HEAD']))
    await readChatError(response)
  })

  test('answers HEAD without a body', async () => {
    const response = await get('/docs/', 'HEAD')
    expect(response.status).toBe(200)
    expect(await response.text()).toBe('')
  })
})

describe('each document', () => {
  const paths = ['/docs/', '/docs/swagger-ui.js', '/openapi.json']
  const ask = (path: string, headers: Readonly<Record<string, string>>) =>
    request(service.url + path, { method: 'GET', headers })

  test.each(paths)('is compressed for clients that accept gzip, and plain for others: %s', async (path) => {
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

  test.each(paths)('is not sent again to clients that have it: %s', async (path) => {
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

  test('can be sent again when an open reply has ended or its reader has left', async () => {
    const readers = new ReaderLimit(8)
    const [one, two] = [new PassThrough(), new PassThrough()]
    readers.enter(one, 'a')
    readers.enter(two, 'a')
    const refused = expect.objectContaining({ status: 503, code: 'overloaded' })
    expect(() => readers.enter(new PassThrough(), 'a')).toThrow(refused)
    one.destroy()
    two.end().resume()
    await Promise.all([once(one, 'close'), once(two, 'close')])
    readers.enter(new PassThrough(), 'a')
    readers.enter(new PassThrough(), 'a')
    expect(() => readers.enter(new PassThrough(), 'a')).toThrow(refused)
  })
})

describe('addresses that open replies and never read them', () => {
  test('have a quarter of the places at most, and other addresses get documents and the page', async () => {
    const proxied = await serviceForThisTest({ TRUSTED_PROXIES: '127.0.0.1' })
    const [, file = ''] = /"(page\/[^"]+)"/.exec(await (await read('/', '198.51.100.1')).text()) ?? []

    function read(path: string, from: string): Promise<Response> {
      return fetch(proxied.url + path, { headers: { accept: 'text/html', 'x-forwarded-for': from } })
    }
    /** Reads a few bytes alone: a reader that stops later has made the buffers of the system large enough for the whole file. */
    function openUnread(path: string): Promise<string> {
      const { hostname: host, port } = new URL(proxied.url)
      return new Promise((resolve, reject) => {
        const read = (_size: number, bytes: Uint8Array) => {
          resolve(Buffer.from(bytes).toString('latin1').slice(9, 12))
          return false
        }
        const socket = connect({ host, port: Number(port), onread: { buffer: new Uint8Array(12), callback: read } })
        onTestFinished(() => {
          socket.destroy()
        })
        socket.on('error', reject)
        socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n`)
      })
    }

    const statuses = await Promise.all(Array.from({ length: 300 }, () => openUnread('/docs/swagger-ui.js')))
    expect(statuses.filter((status) => status === '200')).toHaveLength(256)
    const shared = ['/', '/docs/', '/openapi.json', `/${file}`]
    for (const path of shared) {
      const refused = await read(path, '192.0.2.1')
      expect(refused.headers.get('cache-control')).toBe('no-store')
      expect(refused.headers.get('retry-after')).toBe('1')
      expect(await expectError(refused, 'chat', 503)).toMatchObject({ code: 'overloaded' })
      const given = await read(path, '192.0.2.2')
      expect([path, given.status]).toEqual([path, 200])
      await given.arrayBuffer()
    }
    const known = { headers: { 'x-forwarded-for': '192.0.2.1', 'if-none-match': '*' } }
    expect((await fetch(`${proxied.url}/openapi.json`, known)).status).toBe(304)
  })

  test('leave a place for another address, also when twenty of them take all that they get', () => {
    const readers = new ReaderLimit()
    for (let address = 0; address < 20; address++) {
      const open = () => readers.enter(new PassThrough(), `${address}`)
      expect(() => Array.from({ length: 1024 }, open)).toThrow('Too many clients')
    }
    readers.enter(new PassThrough(), 'another')
  })
})

describe('DOCS=off', () => {
  test('removes the documents: their paths are unknown paths', async () => {
    const closed = await serviceForThisTest({ DOCS: 'off' })
    const other = await expectError(await closed.request('/nothing'), 'chat', 404)
    const open = await expectError(await service.request('/nothing'), 'chat', 404)
    expect(open.message).toBe('This path does not exist. See /docs for the paths that exist.')
    expect(other.message).toBe('This path does not exist. Check it, or ask the operator for the paths that exist.')
    expect((await expectError(await closed.request('/models/'), 'chat', 404)).message).toBe(other.message)
    for (const path of ['/docs', '/docs/', '/docs/swagger-ui.js', '/openapi.json']) {
      const { message, code } = await expectError(await closed.request(path), 'chat', 404)
      expect([path, message, code]).toEqual([path, other.message, other.code])
    }
    await expectError(await closed.request('/openapi.json', { method: 'POST' }), 'chat', 404)
    expect((await closed.request('/plants')).status).toBe(200)
  })

  test('accepts on and off only', () => {
    expect(readConfig({}).docs).toBe('on')
    expect(readConfig({ DOCS: 'OFF' }).docs).toBe('off')
    expect(() => readConfig({ DOCS: 'no' })).toThrow('DOCS is "no"; give one of on, off.')
  })
})
