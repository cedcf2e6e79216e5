import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { type Scope, scopes } from '../../src/access/access.ts'
import { makeKey } from '../../src/access/key.ts'
import { conservatory } from '../support/command.ts'
import { expectError, type Group, sendRaw } from '../support/http.ts'
import { serviceForThisTest, startTestService, type TestService } from '../support/service.ts'
import { isOverPostgres, onceKnown } from '../support/test-database.ts'
import { everythingKept, openSql, sqlForThisTest, type TestSql } from '../support/test-sql.ts'

let service: TestService
let sql: TestSql
/** A valid key with all scopes. */
let key: string

beforeAll(async () => {
  service = await startTestService()
  sql = await openSql(service.dataDirectory)
  key = await service.makeKey('keeper')
})

afterAll(async () => {
  await sql.close()
  await service.close()
})

/** Paths of both interfaces. A request for them needs only a key. */
const paths: readonly (readonly [Group, string])[] = [
  ['plants', '/plants'],
  ['chat', '/models'],
  ['chat', '/v1/models'],
]

/** Sends a request with this `Authorization` header, or without one. */
function ask(path: string, authorization: string | null): Promise<Response> {
  return service.request(path, { headers: { authorization } })
}

async function expectRefused(authorization: string | null, message?: RegExp): Promise<void> {
  for (const [group, path] of paths) {
    const refusal = await expectError(await ask(path, authorization), group, 401)
    if (message) expect(refusal.message).toMatch(message)
    if (group === 'chat') expect(refusal.code).toMatch(/^(missing|invalid)_api_key$/)
    const secret = authorization?.replace(/^\w+\s+/, '') ?? ''
    if (secret.length > 6) expect(refusal.everything).not.toContain(secret)
  }
}

async function expectLetIn(authorization: string): Promise<void> {
  for (const [, path] of paths) {
    const response = await ask(path, authorization)
    expect(`${path} ${response.status} ${await response.text()}`).toMatch(/^\S+ 200 /)
    expect(response.headers.get('www-authenticate')).toBeNull()
  }
}

describe('a credential', () => {
  it.for([
    ['Bearer and the key', (good: string) => `Bearer ${good}`],
    ['bearer in small letters, and two spaces', (good: string) => `bearer  ${good}`],
    ['BEARER in capitals', (good: string) => `BEARER ${good}`],
    ['BeArEr and many spaces', (good: string) => `BeArEr      ${good}`],
    ['spaces around it all', (good: string) => `  Bearer ${good}  `],
  ] as const)('is accepted by plants and chat: %s', async ([, write]) => {
    await expectLetIn(write(key))
  })

  it('without a scheme is accepted by the chat, and refused by the plants', async () => {
    await expectError(await ask('/plants', key), 'plants', 401)
    for (const path of ['/models', '/v1/models', '/models/understudy']) {
      expect((await ask(path, key)).status).toBe(200)
      expect((await ask(path, `  ${key} `)).status).toBe(200)
    }
  })

  it.for([
    ['none', () => null],
    ['an empty header', () => ''],
    ['blanks', () => '   '],
    ['Bearer alone', () => 'Bearer'],
    ['Bearer and blanks', () => 'Bearer    '],
    ['Basic', (good: string) => `Basic ${btoa(`keeper:${good}`)}`],
    ['Basic and the bare key', (good: string) => `Basic ${good}`],
    ['another scheme', (good: string) => `Token ${good}`],
    ['a scheme that begins like Bearer', (good: string) => `BearerToken ${good}`],
    ['Bearer twice', (good: string) => `Bearer Bearer ${good}`],
    ['a colon after Bearer', (good: string) => `Bearer: ${good}`],
    ['the key in quotes', (good: string) => `Bearer "${good}"`],
    ['the key and more', (good: string) => `Bearer ${good} ${good}`],
    ['the key twice with a comma', (good: string) => `Bearer ${good}, Bearer ${good}`],
    ['the key and a letter more', (good: string) => `Bearer ${good}x`],
    ['the key without its last letter', (good: string) => `Bearer ${good.slice(0, -1)}`],
    ['the key without its prefix', (good: string) => `Bearer ${good.slice('cv_'.length)}`],
    ['the prefix that is shown', (good: string) => `Bearer ${good.slice(0, 11)}`],
    ['the key in capitals', (good: string) => `Bearer ${good.toUpperCase()}`],
    ['the digest that is stored', (good: string) => `Bearer ${createHash('sha256').update(good).digest('hex')}`],
    ['a key that nobody made', () => `Bearer ${makeKey()}`],
    ['SQL', () => `Bearer ' OR '1'='1`],
    ['SQL with a comment', () => `Bearer ' OR 1=1 --`],
    ['SQL that would write', () => `Bearer '; UPDATE keys SET revoked = NULL; --`],
    ['SQL without a scheme', () => `' UNION SELECT * FROM keys --`],
    ['a wildcard', () => 'Bearer %'],
    ['null', () => 'Bearer null'],
    ['undefined', () => 'Bearer undefined'],
    ['an object', () => 'Bearer [object Object]'],
    ['letters beyond ASCII', () => 'Bearer cl\u00e9\u00ff'],
    ['8,000 letters', () => `Bearer ${'cv_'.repeat(2666)}`],
  ] as const)('is refused by plants and chat with a 401 and a challenge: %s', async ([, write]) => {
    await expectRefused(write(key))
  })

  it('with a wrong checksum is called mistyped; any other unknown key is called not known', async () => {
    const last = key.endsWith('0') ? '1' : '0'
    await expectRefused(`Bearer ${key.slice(0, -1)}${last}`, /mistyped/)
    await expectRefused(`Bearer ${key.slice(0, 20)}`, /mistyped/)
    await expectRefused(`Bearer ${makeKey()}`, /not known/)
    await expectRefused('Bearer sk-somebody-else', /not known/)
  })

  it('is read from the Authorization header alone', async () => {
    for (const [group, path] of paths) {
      const headers = {
        authorization: null,
        cookie: `key=${key}`,
        'x-api-key': key,
        'proxy-authorization': `Bearer ${key}`,
      }
      const query = `?access_token=${key}&key=${key}&token=${key}`
      const { everything } = await expectError(await service.request(`${path}${query}`, { headers }), group, 401)
      expect(everything).not.toContain(key)
    }
  })

  it('gets a 401 for any text that is not a key', async () => {
    // The test has its own service: after a hundred failures in a minute, an address must wait.
    const own = await serviceForThisTest()
    const printable = fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code))
    const scheme = fc.constantFrom('', 'Bearer ', 'bearer  ', 'Basic ', 'BEARER')
    const text = fc.tuple(scheme, fc.string({ unit: printable, maxLength: 60 })).map((parts) => parts.join(''))
    await fc.assert(
      fc.asyncProperty(text, fc.constantFrom(...paths), async (authorization, [group, path]) => {
        await expectError(await own.request(path, { headers: { authorization } }), group, 401)
      }),
      { numRuns: 100 },
    )
  })

  it('is checked before the body: a refused request gets a 401 for any body, and writes nothing', async () => {
    const before = await everythingKept(sql)
    const json = { name: 'CANARY', model: 'understudy', messages: [{ role: 'user', content: 'CANARY' }] }
    for (const [group, path] of [
      ['plants', '/plants'],
      ['chat', '/chat/completions'],
      ['chat', '/v1/chat/completions'],
    ] as const) {
      for (const body of [JSON.stringify(json), '{not JSON']) {
        const headers = { authorization: `Bearer ${makeKey()}` }
        const { everything } = await expectError(await service.request(path, { body, headers }), group, 401)
        expect(everything).not.toContain('CANARY')
      }
    }
    expect(await everythingKept(sql)).toStrictEqual(before)
  })
})

describe('two Authorization headers', () => {
  it.for([
    ['the same good one', (good: string) => [`Authorization: Bearer ${good}`, `Authorization: Bearer ${good}`]],
    ['a good one, then a wrong one', (good: string) => [`Authorization: Bearer ${good}`, 'Authorization: Bearer x']],
    ['a wrong one, then a good one', (good: string) => ['Authorization: Bearer x', `Authorization: Bearer ${good}`]],
    ['Basic, then a good one', (good: string) => ['Authorization: Basic eDp5', `Authorization: Bearer ${good}`]],
    ['the bare key, then Bearer', (good: string) => [`Authorization: ${good}`, `Authorization: Bearer ${good}`]],
    ['an empty one, then a good one', (good: string) => ['Authorization:', `Authorization: Bearer ${good}`]],
    ['in other letters', (good: string) => [`AUTHORIZATION: Bearer ${good}`, `authorization: Bearer ${good}`]],
    ['two wrong ones', () => ['Authorization: Bearer x', 'Authorization: Bearer y']],
  ] as const)('get a 400 from plants and chat, and nothing is done: %s', async ([, write]) => {
    const before = await everythingKept(sql)
    const body = '{"name": "CANARY", "model": "understudy", "messages": [{"role": "user", "content": "Hello!"}]}'
    for (const [group, path] of [
      ['plants', '/plants'],
      ['chat', '/chat/completions'],
      ['chat', '/v1/chat/completions'],
    ] as const) {
      const head = [
        `POST ${path} HTTP/1.1`,
        'Host: x',
        'Connection: close',
        'Content-Type: application/json',
        `Content-Length: ${body.length}`,
        ...write(key),
      ]
      const refusal = await expectError(await sendRaw(service.url, `${head.join('\r\n')}\r\n\r\n${body}`), group, 400)
      expect(refusal.message).toContain('two Authorization headers')
      expect(refusal.everything).not.toContain(key)
    }
    expect(await everythingKept(sql)).toStrictEqual(before)
  })
})

describe('a scope', () => {
  const calls: readonly { group: Group; method: string; path: string; json?: unknown; needs: Scope; good: number }[] = [
    { group: 'plants', method: 'GET', path: '/plants', needs: 'plants:read', good: 200 },
    { group: 'plants', method: 'GET', path: '/plants/7', needs: 'plants:read', good: 404 },
    { group: 'plants', method: 'POST', path: '/plants', json: { name: 'a' }, needs: 'plants:write', good: 200 },
    { group: 'plants', method: 'DELETE', path: '/plants/7', needs: 'plants:write', good: 404 },
    { group: 'chat', method: 'GET', path: '/models', needs: 'chat', good: 200 },
    { group: 'chat', method: 'GET', path: '/v1/models/understudy', needs: 'chat', good: 200 },
    {
      group: 'chat',
      method: 'POST',
      path: '/chat/completions',
      json: { model: 'understudy', messages: [{ role: 'user', content: 'Hello!' }] },
      needs: 'chat',
      good: 200,
    },
  ]

  it.for([
    [['plants:read']],
    [['plants:write']],
    [['chat']],
    [['characters:write']],
    [['plants:read', 'chat']],
    [['plants:read', 'plants:write']],
    [[...scopes]],
  ] as const)('allows its own routes and no others: %j', async ([held]) => {
    const own = await service.makeKey(`holder of ${held.join(' ').replaceAll(':', '-')}`, held)
    for (const { group, method, path, json, needs, good } of calls) {
      const before = await everythingKept(sql)
      const headers = { authorization: `Bearer ${own}` }
      const response = await service.request(path, { method, headers, ...(json === undefined ? {} : { json }) })
      if (held.some((scope) => scope === needs)) {
        expect(`${method} ${path} ${response.status}`).toBe(`${method} ${path} ${good}`)
        continue
      }
      const { message, code } = await expectError(response, group, 403)
      expect(message).toContain(`"${needs}"`)
      if (group === 'chat') expect(code).toBe('missing_scope')
      expect(await everythingKept(sql)).toStrictEqual(before)
    }
  })
})

describe('a key that ends', () => {
  it('is refused from the second of its expiry on, while the service runs', async () => {
    const expires = Math.floor(Date.now() / 1000) + 3600
    const ending = await service.makeKey('keeper', scopes, expires)
    onTestFinished(() => {
      vi.useRealTimers()
    })
    await expectLetIn(`Bearer ${ending}`)
    vi.useFakeTimers({ toFake: ['Date'], now: expires * 1000 - 1 })
    await expectLetIn(`Bearer ${ending}`)
    vi.setSystemTime(expires * 1000)
    await expectRefused(`Bearer ${ending}`, /expired/)
    await expectLetIn(`Bearer ${key}`)
  })

  it.for(['prefix', 'whole key'] as const)(
    'is refused at once when the command line revokes it by its %s, and its account’s other keys are not',
    async (how) => {
      const revoked = await service.makeKey('keeper')
      await expectLetIn(`Bearer ${revoked}`)
      const argument = how === 'prefix' ? revoked.slice(0, 11) : revoked
      const ended = await conservatory(['keys', 'revoke', argument], { DATA_DIR: service.dataDirectory })
      expect(ended).toMatchObject({ code: 0, stdout: '' })
      expect(ended.stderr).not.toContain(revoked)
      await onceKnown(() => expectRefused(`Bearer ${revoked}`, /revoked/))
      await expectLetIn(`Bearer ${key}`)
    },
  )
})

describe('a secret', () => {
  it('is not stored; only its SHA-256 digest is', async () => {
    const secret = await service.makeKey('keeper')
    await expectLetIn(`Bearer ${secret}`)
    await expectRefused(`Bearer ${secret}x`)
    const files = readdirSync(service.dataDirectory, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => readFileSync(join(entry.parentPath, entry.name)))
    const bytes = Buffer.concat(files)
    expect(bytes.includes(createHash('sha256').update(secret).digest('hex'))).toBe(!isOverPostgres)
    for (const text of [secret, secret.slice(3), secret.slice(7), secret.slice(0, 20)]) {
      expect(bytes.includes(text)).toBe(false)
      expect(bytes.includes(Buffer.from(text, 'utf16le'))).toBe(false)
    }
    const [row] = await sql.run<{ digest: string }>('SELECT * FROM keys WHERE prefix = ?', secret.slice(0, 11))
    expect(row?.digest).toBe(createHash('sha256').update(secret).digest('hex'))
    expect(
      Object.values(row ?? {})
        .map(String)
        .join(),
    ).not.toContain(secret.slice(7))
  })

  it('that the operator has preset is stored as a digest too, whatever its form', async () => {
    const preset = "the bearer's own key"
    const own = await startTestService({ BOOTSTRAP_KEY: preset })
    onTestFinished(() => own.close())
    expect((await own.request('/plants', { headers: { authorization: `Bearer ${preset}` } })).status).toBe(200)
    expect((await own.request('/models', { headers: { authorization: preset } })).status).toBe(200)
    const files = readdirSync(own.dataDirectory).map((file) => join(own.dataDirectory, file))
    for (const file of files) expect(readFileSync(file).includes(preset)).toBe(false)
    const kept = await everythingKept(await sqlForThisTest(own.dataDirectory))
    expect(kept['keys']).toHaveLength(1)
    expect(JSON.stringify(kept)).not.toContain(preset)
  })
})
