import { Writable } from 'node:stream'
import pino from 'pino'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { createServer } from '../../src/app.ts'
import { readConfig } from '../../src/config.ts'
import { openAiErrorBody, plantErrorBody } from '../../src/errors.ts'
import { errorHandler } from '../../src/http/errors.ts'
import { acceptJsonOnly } from '../../src/http/json.ts'
import { logRequests } from '../../src/http/request-log.ts'
import { refuseUnknownRoutes } from '../../src/http/unfit-request.ts'
import { workAtOnce } from '../../src/work/work.ts'
import { expectError, type Group, sendRaw } from '../support/http.ts'
import { serviceForThisTest, startTestService, type TestService } from '../support/service.ts'
import { isOverPostgres } from '../support/test-database.ts'
import { openSql, sqlForThisTest, type TestSql } from '../support/test-sql.ts'

const plantBodyLimit = 2000
const chatBodyLimit = 3000

let service: TestService
let sql: TestSql

beforeAll(async () => {
  service = await startTestService({
    PLANT_BODY_LIMIT: String(plantBodyLimit),
    CHAT_BODY_LIMIT: String(chatBodyLimit),
  })
  sql = await openSql(service.dataDirectory)
})

afterAll(async () => {
  await sql.close()
  await service.close()
})

/** Routes that accept a body, each with a valid body. */
const bodyRoutes: readonly { group: Group; path: string; limit: number; good: string }[] = [
  { group: 'plants', path: '/plants', limit: plantBodyLimit, good: '{"name": "Monstera"}' },
  {
    group: 'chat',
    path: '/chat/completions',
    limit: chatBodyLimit,
    good: '{"model": "understudy", "messages": [{"role": "user", "content": "Hello!"}]}',
  },
  {
    group: 'chat',
    path: '/v1/chat/completions',
    limit: chatBodyLimit,
    good: '{"model": "understudy", "messages": [{"role": "user", "content": "Hello!"}]}',
  },
]

/** A valid body with one more property, given as JSON text. */
function withProperty(good: string, property: string): string {
  return `${good.slice(0, -1)}, ${property}}`
}

/** Sends a body, and expects a refusal in the group's shape and no write. */
async function expectBodyRefused(
  write: (good: string) => string | Uint8Array<ArrayBuffer>,
  status: number,
  { message, headers = {} }: { message: RegExp; headers?: Readonly<Record<string, string | null>> },
): Promise<void> {
  for (const { group, path, good } of bodyRoutes) {
    const before = await plantsWritten()
    const response = await service.request(path, { method: 'POST', body: write(good), headers })
    const refusal = await expectError(response, group, status)
    expect(refusal.message).toMatch(message)
    expect(refusal.everything).not.toContain('CANARY')
    expect(await plantsWritten()).toBe(before)
  }
}

/** The number of plants. Records of the ledger are not counted, since they are written a moment after each chat request. */
async function plantsWritten(): Promise<number | undefined> {
  const [row] = await sql.run<{ readonly plants: number }>('SELECT count(*) AS plants FROM plants')
  return row?.plants
}

function head(method: string, path: string, ...more: readonly string[]): string {
  const lines = ['Host: x', 'Connection: close', `Authorization: Bearer ${service.key}`, ...more]
  return `${method} ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`
}

describe('an unknown route', () => {
  it.for([
    ['plants', 'GET', '/plants/7/leaves'],
    ['plants', 'GET', '/plants/7/'],
    ['plants', 'POST', '/plants/7/leaves?name=CANARY'],
    ['chat', 'GET', '/page'],
    ['chat', 'GET', '/page/version/nothing-CANARY.ts'],
    ['chat', 'GET', '/nothing'],
    ['chat', 'GET', '/nothing/CANARY?CANARY=1'],
    ['chat', 'GET', '/plantsandmore'],
    ['chat', 'GET', '/PLANTS'],
    ['chat', 'GET', '/v1'],
    ['chat', 'GET', '/v1/plants'],
    ['chat', 'POST', '/chat'],
    ['chat', 'POST', '/chat/completions/'],
    ['chat', 'POST', '/v1/v1/chat/completions'],
    ['chat', 'GET', '/../../etc/passwd'],
    ['chat', 'GET', '/docs/nothing-CANARY.js'],
    ['chat', 'GET', '/docs/../../package.json'],
  ] as const)('is a 404 in the error format of %s, with a key or without: %s %s', async ([group, method, path]) => {
    for (const authorization of [`Bearer ${service.key}`, null]) {
      const refusal = await expectError(await service.request(path, { method, headers: { authorization } }), group, 404)
      expect(refusal.everything).not.toContain('CANARY')
      if (group === 'chat') expect(refusal).toMatchObject({ code: 'unknown_route', param: null })
    }
  })
})

describe('a route of OpenAI that is not served', () => {
  it.for([
    ['/completions', 'POST /chat/completions'],
    ['/v1/completions', 'POST /chat/completions'],
    ['/embeddings', 'not served'],
    ['/v1/embeddings', 'not served'],
    ['/moderations', 'not served'],
    ['/v1/moderations?a=1', 'not served'],
  ] as const)('is a 404 that names the alternative: %s', async ([path, advice]) => {
    const refusal = await expectError(await service.request(path, { json: { model: 'a', input: 'b' } }), 'chat', 404)
    expect(refusal).toMatchObject({ code: 'unknown_route', param: null })
    expect(refusal.message).toContain(advice)
  })
})

describe('a method that a path does not have', () => {
  it.for([
    ['plants', 'PUT', '/plants', 'GET, HEAD, POST'],
    ['plants', 'PATCH', '/plants?limit=2', 'GET, HEAD, POST'],
    ['plants', 'DELETE', '/plants', 'GET, HEAD, POST'],
    ['plants', 'OPTIONS', '/plants', 'GET, HEAD, POST'],
    ['plants', 'POST', '/plants/7', 'DELETE, GET, HEAD, PATCH'],
    ['plants', 'PUT', '/plants/7', 'DELETE, GET, HEAD, PATCH'],
    ['chat', 'GET', '/chat/completions', 'POST'],
    ['chat', 'DELETE', '/v1/chat/completions', 'POST'],
    ['chat', 'DELETE', '/characters', 'GET, HEAD, POST'],
    ['chat', 'POST', '/characters/Fern', 'DELETE, GET, HEAD, PUT'],
    ['chat', 'POST', '/models', 'GET, HEAD'],
    ['chat', 'DELETE', '/models/understudy', 'GET, HEAD'],
    ['chat', 'PATCH', '/livez', 'GET, HEAD'],
    ['chat', 'OPTIONS', '/readyz', 'GET, HEAD'],
  ] as const)('is a 405 that names the allowed methods: %s %s %s', async ([group, method, path, allow]) => {
    for (const authorization of [`Bearer ${service.key}`, null]) {
      const response = await service.request(path, { method, headers: { authorization } })
      const { message } = await expectError(response, group, 405)
      expect(response.headers.get('allow')).toBe(allow)
      expect(message).toContain(allow)
    }
  })

  it('is a 405 with any body and content type, also for rare methods', async () => {
    const headers = { 'content-type': 'text/plain' }
    await expectError(await service.request('/plants', { method: 'PUT', body: 'CANARY', headers }), 'plants', 405)
    for (const method of ['TRACE', 'PURGE', 'PROPFIND', 'QUERY']) {
      const reply = await sendRaw(service.url, head(method, '/plants/7'))
      await expectError(reply, 'plants', 405)
      expect(reply.headers.get('allow')).toBe('DELETE, GET, HEAD, PATCH')
      await expectError(await sendRaw(service.url, head(method, '/chat/completions')), 'chat', 405)
    }
    const bare = await service.request('/chat/completions', { method: 'HEAD' })
    expect({ status: bare.status, allow: bare.headers.get('allow') }).toStrictEqual({ status: 405, allow: 'POST' })
  })
})

describe('a content type', () => {
  it.for([
    'text/plain',
    'text/json',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/xml',
    'application/jsonx',
    'application/json-seq',
    'application/ld+json',
    'application/octet-stream',
    'application/*',
    '*/*',
    'json',
    'application/json, text/plain',
    'application',
    '/',
    ';',
    null,
  ])('that is not application/json is a 415: %s', async (contentType) => {
    // The body is sent as bytes, since fetch adds no content type to bytes.
    await expectBodyRefused((good) => new TextEncoder().encode(good), 415, {
      message: /application\/json/,
      headers: { 'content-type': contentType },
    })
  })

  // RFC 8259, section 11: the media type of JSON has no parameter `charset`, so a charset is ignored.
  it.for([
    'application/json',
    'APPLICATION/JSON',
    'application/json; charset=utf-8',
    'application/json;charset=UTF-8',
    'application/json; charset="utf-8"',
    'application/json; charset=iso-8859-1',
    'application/json; profile=x; charset=utf-8',
    'application/json ;',
  ])('that is application/json is accepted, and the body is read as UTF-8: %s', async (contentType) => {
    const headers = { 'content-type': contentType }
    const plant = await service.request('/plants', { body: '{"name": "Kätzchenweide"}', headers })
    expect({ status: plant.status, text: await plant.text() }).toStrictEqual({
      status: 200,
      text: '{"name":"Kätzchenweide"}',
    })
    const chat = await service.request('/chat/completions', { body: bodyRoutes[1]?.good ?? '', headers })
    expect(chat.status).toBe(200)
  })
})

describe('a body over the limit', () => {
  it('is a 413 at each group’s own limit, and a body of exactly that length is accepted', async () => {
    for (const { group, path, limit, good } of bodyRoutes) {
      expect((await service.request(path, { body: good.padEnd(limit) })).status).toBe(200)
      await expectError(await service.request(path, { body: good.padEnd(limit + 1) }), group, 413)
    }
    const between = (good: string) => good.padEnd(plantBodyLimit + 1)
    expect((await service.request('/chat/completions', { body: between(bodyRoutes[1]?.good ?? '') })).status).toBe(200)
  })

  it('is counted in bytes, not in characters', async () => {
    for (const { group, path, limit, good } of bodyRoutes) {
      const body = withProperty(good, `"note": "${'é'.repeat(limit / 2)}"`)
      expect(body.length).toBeLessThan(limit)
      await expectError(await service.request(path, { body }), group, 413)
    }
  })

  it('is refused as soon as Content-Length is read, before the body is sent', async () => {
    for (const { group, path } of bodyRoutes) {
      const announced = head('POST', path, 'Content-Type: application/json', 'Content-Length: 99999999999')
      await expectError(await sendRaw(service.url, announced), group, 413)
    }
  })

  it('is refused when it is chunked, without a length', async () => {
    for (const { group, path, limit } of bodyRoutes) {
      const start = head('POST', path, 'Content-Type: application/json', 'Transfer-Encoding: chunked')
      const piece = `${(500).toString(16)}\r\n${' '.repeat(500)}\r\n`
      const pieces = piece.repeat(Math.ceil(limit / 500) + 1)
      await expectError(await sendRaw(service.url, `${start}${pieces}0\r\n\r\n`), group, 413)
    }
  })

  it('does not affect the next request', async () => {
    expect((await service.request('/plants')).status).toBe(200)
    expect((await service.request('/livez', { headers: { authorization: null } })).status).toBe(200)
  })
})

describe('a body that is not JSON', () => {
  it.for([
    ['nothing', () => ''],
    ['blanks', () => ' \n\t '],
    ['one brace', () => '{'],
    ['a body that is cut off', (good: string) => good.slice(0, -1)],
    ['a body and more', (good: string) => `${good} CANARY`],
    ['two bodies', (good: string) => `${good}${good}`],
    ['a comma too many', (good: string) => `${good.slice(0, -1)},}`],
    ['single quotes', () => `{'name': 'CANARY', 'model': 'CANARY'}`],
    ['no quotes', () => '{name: CANARY}'],
    ['no value', () => '{"CANARY": }'],
    ['no colon', () => '{"CANARY" "x"}'],
    ['colons without properties', () => '{:::}'],
    ['a comment', (good: string) => `${good} // CANARY`],
    ['NaN', (good: string) => withProperty(good, '"x": NaN')],
    ['Infinity', (good: string) => withProperty(good, '"x": -Infinity')],
    ['undefined', () => 'undefined'],
    ['a leading zero', (good: string) => withProperty(good, '"x": 01')],
    ['a hexadecimal number', (good: string) => withProperty(good, '"x": 0x1')],
    ['a raw tab in a text', (good: string) => withProperty(good, '"x": "CANARY\t"')],
    ['a raw line break in a text', (good: string) => withProperty(good, '"x": "CANARY\n"')],
    ['an unknown escape', (good: string) => withProperty(good, '"x": "CANARY\\x41"')],
    ['half an escape', (good: string) => withProperty(good, '"x": "CANARY\\u12"')],
    ['a text without its end', (good: string) => withProperty(good, '"x": "CANARY\\"')],
    ['a bracket that closes another', (good: string) => withProperty(good, '"x": [1}')],
    ['a byte order mark', (good: string) => `\ufeff${good}`],
    ['a form', () => 'name=CANARY&model=CANARY'],
  ] as const)('is a 400: %s', async ([, write]) => {
    await expectBodyRefused(write, 400, { message: /^The body is (empty|not valid JSON)/ })
  })

  it('is a 400 that asks for a JSON object if there is neither a body nor a content type', async () => {
    for (const { group, path } of bodyRoutes) {
      const { message } = await expectError(await service.request(path, { method: 'POST' }), group, 400)
      expect(message).toBe('The body must be a JSON object. Send one.')
    }
  })

  it.for([
    ['a byte that UTF-8 does not have', [0xff]],
    ['Latin-1', [0xe9]],
    ['a truncated character', [0xf0, 0x9f, 0x8c]],
    ['a continuation without a start', [0x80]],
    ['an overlong slash', [0xc0, 0xaf]],
    ['an encoded surrogate', [0xed, 0xa0, 0x80]],
    ['a code point beyond the last', [0xf4, 0x90, 0x80, 0x80]],
    ['UTF-16', [0x00, 0xd8]],
  ] as const)('is a 400 when it is not UTF-8: %s', async ([, bytes]) => {
    const write = (good: string) =>
      Uint8Array.from([...Buffer.from(withProperty(good, '"x": "CANARY')), ...bytes, ...Buffer.from('"}')])
    await expectBodyRefused(write, 400, { message: /^The body is not valid UTF-8/ })
  })
})

describe('deep JSON', () => {
  it.for([
    ['101 levels of arrays', (good: string) => withProperty(good, `"x": ${'['.repeat(100)}${']'.repeat(100)}`)],
    ['101 levels of objects', (good: string) => withProperty(good, `"x": ${'{"x":'.repeat(100)}1${'}'.repeat(100)}`)],
    ['1,900 brackets alone', () => '['.repeat(1900)],
    ['380 open objects without an end', () => '{"x":'.repeat(380)],
    [
      'a deep level after a text that ends in a backslash',
      (good: string) => withProperty(good, `"x": ["\\\\", ${'['.repeat(100)}]`),
    ],
  ] as const)('is a 400: %s', async ([, write]) => {
    await expectBodyRefused(write, 400, { message: /deeper than 100 levels/ })
  })

  it.for([
    ['100 levels', (good: string) => withProperty(good, `"x": ${'['.repeat(99)}${']'.repeat(99)}`)],
    ['many levels beside each other', (good: string) => withProperty(good, `"x": [${'[[]],'.repeat(200)}[]]`)],
    ['brackets in a text', (good: string) => withProperty(good, `"x": "${'[{'.repeat(200)}\\"${'[{'.repeat(200)}"`)],
  ] as const)('is not refused for %s', async ([, write]) => {
    for (const { path, good } of bodyRoutes) {
      const response = await service.request(path, { body: write(good) })
      expect(`${response.status} ${await response.text()}`).toMatch(/^200 /)
    }
  })
})

describe('a property that is sent twice', () => {
  it.for([
    ['with another value', (good: string) => `{"name": "CANARY", "model": "CANARY", ${good.slice(1)}`],
    ['with the same value', (good: string) => `${good.slice(0, -1)}, ${good.slice(1)}`],
    ['in an ignored field', (good: string) => withProperty(good, '"x": 1, "x": 1')],
    ['deep within', (good: string) => withProperty(good, '"x": [{"y": [{"z": 1, "a": {}, "z": 2}]}]')],
    ['once with an escape', (good: string) => withProperty(good, '"CANARY": 1, "\\u0043ANARY": 2')],
    ['twice with different escapes', (good: string) => withProperty(good, '"\\/": 1, "\\u002F": 2')],
    ['without a name', (good: string) => withProperty(good, '"": 1, "": 2')],
    ['that is a number', (good: string) => withProperty(good, '"7": 1, "7": 2')],
    ['called __proto__', (good: string) => withProperty(good, '"__proto__": {}, "__proto__": {}')],
    ['with colons and quotes in its name', (good: string) => withProperty(good, '"a\\":\\"b": 1, "a\\":\\"b": ":"')],
  ] as const)('is a 400: %s', async ([, write]) => {
    await expectBodyRefused(write, 400, { message: /names a property twice/ })
  })

  it('is not found in two objects of a body, nor in two names that look alike', async () => {
    const property =
      '"x": [{"a": ":", "b": {"a": 1}}, {"a": "\\":"}], "X": 1, "x ": 1, "\\u0445": 1, "a:b": 2, "a": {"x": 1}'
    for (const { path, good } of bodyRoutes) {
      expect((await service.request(path, { body: withProperty(good, property) })).status).toBe(200)
    }
  })
})

describe('an internal error', () => {
  // With PostgreSQL, the operator can restore a missing table while the service runs.
  const [status, detail] = isOverPostgres ? [503, /CANARY|table|relation/i] : [500, /CANARY|table|database/i]

  it(`in the plants’ table is a ${status} without detail, and the chat goes on`, async () => {
    const own = await serviceForThisTest()
    await (await sqlForThisTest(own.dataDirectory)).run('ALTER TABLE plants RENAME TO lost_plants')
    const calls = [
      own.request('/plants'),
      own.request('/plants?limit=2&tag=x'),
      own.request('/plants/7'),
      own.request('/plants/7', { method: 'DELETE' }),
      own.request('/plants', { json: { name: 'CANARY' } }),
    ]
    for (const response of await Promise.all(calls)) {
      const { everything } = await expectError(response, 'plants', status)
      expect(everything).not.toMatch(detail)
    }
    expect((await own.request('/models')).status).toBe(200)
    expect((await own.request('/livez')).status).toBe(200)
  })

  it(`in the keys’ table is a ${status} for every caller, and not a 401`, async () => {
    const own = await serviceForThisTest()
    await (await sqlForThisTest(own.dataDirectory)).run('DROP TABLE keys')
    for (const [group, path] of [
      ['plants', '/plants'],
      ['chat', '/models'],
      ['chat', '/v1/models'],
    ] as const) {
      const { everything } = await expectError(await own.request(path), group, status)
      expect(everything).not.toMatch(detail)
      expect(everything).not.toContain(own.key)
    }
  })

  const crashes: readonly (readonly [string, () => unknown])[] = [
    ['an Error', () => new Error('CANARY')],
    ['an Error with a status of its own', () => Object.assign(new Error('CANARY'), { statusCode: 418, status: 418 })],
    [
      'an Error with a code',
      () => Object.assign(new Error('CANARY'), { code: 'CANARY_CODE', headers: { 'x-a': 'CANARY' } }),
    ],
    ['an Error with a cause', () => new Error('CANARY', { cause: new Error('CANARY') })],
    ['an Error with the field validation', () => Object.assign(new Error('CANARY'), { validation: ['CANARY'] })],
    ['a text', () => 'CANARY'],
    ['an object', () => ({ statusCode: 200, message: 'CANARY', error: 'CANARY' })],
    ['a number', () => 404],
    ['null', () => null],
    ['undefined', () => undefined],
  ]

  it.for(crashes)('is a 500 without detail when a handler throws %s', async ([, thrown]) => {
    const lines: string[] = []
    const log = new Writable({
      write(line, _encoding, done) {
        lines.push(String(line))
        done()
      },
    })
    const app = createServer(pino({ level: 'error' }, log), readConfig({}))
    onTestFinished(() => app.close())
    acceptJsonOnly(app, workAtOnce)
    logRequests(app)
    refuseUnknownRoutes(app)
    app.setErrorHandler(errorHandler(openAiErrorBody))
    app.get('/later', async () => {
      await Promise.resolve()
      throw thrown()
    })
    app.get('/at-once', () => {
      throw thrown()
    })
    await app.register(async (group) => {
      group.setErrorHandler(errorHandler(plantErrorBody))
      group.get('/plants/later', async () => {
        throw thrown()
      })
    })
    const url = await app.listen({ port: 0, host: '127.0.0.1' })
    for (const [group, path] of [
      ['chat', '/later'],
      ['chat', '/at-once'],
      ['plants', '/plants/later'],
    ] as const) {
      const response = await fetch(url + path)
      const refusal = await expectError(response, group, 500)
      expect(refusal.everything).not.toContain('CANARY')
      if (group === 'chat') expect(refusal).toMatchObject({ code: 'internal_error', param: null })
      const line = lines.find((text) => text.includes(response.headers.get('x-request-id') ?? 'none'))
      expect(line).toBeDefined()
      if (JSON.stringify(thrown() ?? null).includes('CANARY')) expect(line).toContain('CANARY')
    }
    expect(lines).toHaveLength(3)
  })
})

describe('the request id', () => {
  it('is in every reply, new each time, and never the caller’s', async () => {
    const calls: readonly [string, Parameters<TestService['request']>[1]][] = [
      ['/livez', {}],
      ['/readyz', {}],
      ['/docs', {}],
      ['/plants', {}],
      ['/plants', { json: { name: 'Monstera' } }],
      ['/plants', { body: '{' }],
      ['/plants/987654', { method: 'DELETE' }],
      ['/models', {}],
      ['/chat/completions', { body: bodyRoutes[1]?.good ?? '' }],
      ['/chat/completions', { body: withProperty(bodyRoutes[1]?.good ?? '', '"stream": true') }],
      ['/nothing', {}],
      ['/plants/%zz', {}],
    ]
    const ids = await Promise.all(
      calls.map(async ([path, options]) => {
        const headers = { 'x-request-id': 'req_CANARY', 'request-id': 'req_CANARY' }
        const response = await service.request(path, { ...options, headers })
        await response.text()
        return response.headers.get('x-request-id') ?? `none for ${path}`
      }),
    )
    for (const id of ids) expect(id).toMatch(/^req_[0-9a-f]{32}$/)
    expect(new Set(ids).size).toBe(ids.length)
  })
})
