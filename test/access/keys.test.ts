import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { scopes } from '../../src/access/access.ts'
import { makeKey } from '../../src/access/key.ts'
import type { KeyBody } from '../../src/access/key-body.ts'
import { PostgresAccessStore } from '../../src/access/postgres.ts'
import { SqliteAccessStore } from '../../src/access/sqlite.ts'
import { OutsideChanges } from '../../src/storage/caches.ts'
import { openDatabase } from '../../src/storage/database.ts'
import { openSqliteStores } from '../../src/stores/stores.ts'
import { eventually } from '../support/eventually.ts'
import { expectError } from '../support/http.ts'
import { type RequestOptions, serviceForThisTest, startTestService, type TestService } from '../support/service.ts'

let service: TestService
/** An admin key of the account `panel`. */
let admin: string

beforeAll(async () => {
  service = await startTestService()
  admin = await service.makeKey('panel', ['admin'])
})

afterAll(() => service?.close())

function ask(path: string, options: RequestOptions = {}, key = admin): Promise<Response> {
  return service.request(path, { ...options, headers: { authorization: key, ...options.headers } })
}

interface MadeKey extends KeyBody {
  readonly key: string
}

async function make(json: unknown, path = '/keys'): Promise<MadeKey> {
  const response = await ask(path, { json })
  expect(response.status).toBe(201)
  const made: MadeKey = JSON.parse(await response.text())
  expect(response.headers.get('location')).toBe(`/keys/${made.id}`)
  return made
}

async function list(key = admin): Promise<readonly KeyBody[]> {
  const body: { object: string; data: KeyBody[]; has_more: boolean } = JSON.parse(
    await (await ask('/keys', {}, key)).text(),
  )
  expect(body).toStrictEqual({ object: 'list', data: expect.any(Array), has_more: false })
  return body.data
}

describe('GET /keys', () => {
  const page = async (query: string, key: string): Promise<{ data: KeyBody[]; has_more: boolean }> =>
    JSON.parse(await (await ask(`/keys${query}`, {}, key)).text())

  it('lists the working keys in pages', async () => {
    const panel = await service.makeKey('paged', ['keys', 'chat'])
    for (let count = 0; count < 104; count++) await ask('/keys', { json: { scopes: ['chat'] } }, panel)
    const whole = await page('', panel)
    expect([whole.data.length, whole.has_more]).toEqual([105, false])
    await ask(`/keys/${whole.data[100]?.id}`, { method: 'DELETE' }, panel)
    const ids = whole.data.map(({ id }) => id).filter((_id, index) => index !== 100)
    const found: string[] = []
    for (let query = '?limit=30', hasMore = true; hasMore; query = `?limit=30&after=${found.at(-1)}`) {
      const { data, has_more } = await page(query, panel)
      expect(data.length).toBe(has_more ? 30 : 14)
      found.push(...data.map(({ id }) => id))
      hasMore = has_more
    }
    expect(found).toEqual(ids)
    expect(await page(`?after=${whole.data[100]?.id}`, panel)).toMatchObject({
      data: whole.data.slice(101),
      has_more: false,
    })
  })

  it('ends a page early if the keys have long lists of models', async () => {
    const panel = await service.makeKey('long-lists', ['keys', 'chat'])
    const models = Array.from({ length: 100 }, (_none, index) => `model-${index}`.padEnd(255, 'é'))
    for (let count = 0; count < 60; count++) await ask('/keys', { json: { scopes: ['chat'], models } }, panel)
    const first = await page('', panel)
    expect(first.has_more).toBe(true)
    const rest = await page(`?after=${first.data.at(-1)?.id}`, panel)
    expect([first.data.length + rest.data.length, rest.has_more]).toEqual([61, false])
  })

  it('does not read the lists of models of ended keys', async () => {
    const { access } = openSqliteStores(':memory:')
    const account = await access.createAccount('ann')
    const request = { account: 'ann', scopes: ['chat'], models: ['best'] } as const
    const ended = await access.createKey(request)
    await access.createKey(request)
    await access.revokeKey(ended.key.id)
    const keys = await access.keysAfter(account.id, undefined, 20)
    expect(keys).toHaveLength(2)
    for (const key of keys) expect(key.models).toEqual(key.id === ended.key.id ? null : ['best'])
  })

  it.each(['limit=0', 'limit=1001', 'after=key_0', 'after=other'])('refuses %s', async (query) => {
    const other = (await list())[0]?.id ?? ''
    const panel = await service.makeKey('refused', ['keys'])
    await expectError(await ask(`/keys?${query.replace('other', other)}`, {}, panel), 'chat', 400)
  })
})

it('a key is found by its id, its prefix or a beginning of it without a look at all keys', async () => {
  const database = openDatabase(':memory:')
  const statements: string[] = []
  const prepare = database.prepare.bind(database)
  vi.spyOn(database, 'prepare').mockImplementation((sql: string) => {
    statements.push(sql)
    return prepare(sql)
  })
  const access = new SqliteAccessStore(database, new OutsideChanges(database))
  await access.createAccount('ann')
  const request = { account: 'ann', scopes: ['chat'] } as const
  const [first, second, third] = [
    await access.createKey(request),
    await access.createKey(request),
    await access.createKey(request),
  ]
  await access.revokeKey({ id: first.key.id, account: first.key.account.id })
  await access.rotateKey(second.key.prefix, 0)
  await access.revokeKey(third.key.prefix.slice(0, -1))
  const scans = statements
    .filter((sql) => /^\s*(SELECT|UPDATE|DELETE)/.test(sql) && sql.includes('keys'))
    .map((sql) => prepare<[], { detail: string }>(`EXPLAIN QUERY PLAN ${sql.replace(/[?]|[$]\w+/g, 'NULL')}`))
    .map((plan) => plan.all().map(({ detail }) => detail))
  expect(scans.length).toBeGreaterThanOrEqual(5)
  expect(scans.flat().filter((step) => /^SCAN keys(?! USING (COVERING )?INDEX keys_admin)/.test(step))).toEqual([])
})

describe('POST /keys', () => {
  it('creates a working key of the caller’s account, and shows it once', async () => {
    const expires = Math.floor(Date.now() / 1000) + 3600
    const limits = { requests_per_minute: 60, plants: 0 }
    const made = await make({ name: ' phone ', scopes: ['chat', 'plants:read', 'chat'], expires, limits })
    expect(made).toStrictEqual({
      object: 'key',
      id: expect.stringMatching(/^key_[0-9a-f]{32}$/),
      prefix: made.key.slice(0, 11),
      name: 'phone',
      scopes: ['chat', 'plants:read'],
      created: expect.any(Number),
      expires,
      last_used: null,
      limits,
      models: null,
      key: expect.stringMatching(/^cv_[0-9A-Za-z]{38}$/),
    })
    expect((await ask('/models', {}, made.key)).status).toBe(200)
    await expectError(await ask('/keys', {}, made.key), 'chat', 403)
    const { key: secret, ...shown } = made
    const text = await (await ask(`/keys/${made.id}`)).text()
    expect(text).not.toContain(secret.slice(7))
    // GET /keys shows the last use at once, before a timer writes it.
    expect(JSON.parse(text)).toStrictEqual({ ...shown, last_used: expect.any(Number) })
    expect((await list()).find(({ id }) => id === made.id)).toStrictEqual({ ...shown, last_used: expect.any(Number) })
  })

  it('takes null as a missing field', async () => {
    expect(await make({ scopes: ['chat'], name: null, expires: null })).toMatchObject({
      name: null,
      expires: null,
      limits: {},
    })
  })

  it.for([
    [{}, 'scopes'],
    [{ scopes: [] }, 'scopes'],
    [{ scopes: 'chat' }, 'scopes'],
    [{ scopes: null }, 'scopes'],
    [{ scopes: ['fly'] }, 'scopes[0]'],
    [{ scopes: ['chat', 5] }, 'scopes[1]'],
    [{ scopes: ['chat'], name: 5 }, 'name'],
    [{ scopes: ['chat'], name: '  ' }, 'name'],
    [{ scopes: ['chat'], name: 'a\nb' }, 'name'],
    [{ scopes: ['chat'], name: 'x'.repeat(256) }, 'name'],
    [{ scopes: ['chat'], name: '\ud800' }, 'name'],
    [{ scopes: ['chat'], expires: '2099-01-01T00:00:00Z' }, 'expires'],
    [{ scopes: ['chat'], expires: 4102444800.5 }, 'expires'],
    [{ scopes: ['chat'], expires: 4102444800000 }, 'expires'],
    [{ scopes: ['chat'], expires: 1 }, 'expires'],
    [{ scopes: ['chat'], expires: -1 }, 'expires'],
    [{ scopes: ['chat'], expire: 4102444800 }, 'expire'],
    [{ scopes: ['chat'], limits: 5 }, 'limits'],
    [{ scopes: ['chat'], limits: { speed: 1 } }, 'limits.speed'],
    [{ scopes: ['chat'], limits: { plants: -1 } }, 'limits.plants'],
    [{ scopes: ['chat'], limits: { plants: 1.5 } }, 'limits.plants'],
    [{ scopes: ['chat'], limits: { plants: '5' } }, 'limits.plants'],
    [{ scopes: ['chat'], limits: { plants: 1e13 } }, 'limits.plants'],
    [{ scopes: ['chat'], account: 'owner' }, 'account'],
  ] as const)('refuses %j, names the field, and creates no key', async ([json, param]) => {
    const before = await list()
    const refusal = await expectError(await ask('/keys', { json }), 'chat', 400)
    expect(refusal.param).toBe(param)
    expect(refusal.message).toContain(`"${param}"`)
    expect((await list()).length).toBe(before.length)
  })

  it('answers an unknown scope with the list of scopes, and a malformed moment with its format', async () => {
    const scope = await expectError(await ask('/keys', { json: { scopes: ['fly'] } }), 'chat', 400)
    expect(scope.message).toContain(scopes.join(', '))
    const moment = { scopes: ['chat'], expires: '2099-01-01' }
    expect((await expectError(await ask('/keys', { json: moment }), 'chat', 400)).message).toContain('Unix seconds')
  })
})

describe('the keys of an account', () => {
  it('are not all read for a request about one of them', async () => {
    const { id } = await make({ scopes: ['chat'] })
    const all = [SqliteAccessStore, PostgresAccessStore].map(({ prototype }) => vi.spyOn(prototype, 'listKeys'))
    onTestFinished(() => all.forEach((spy) => void spy.mockRestore()))
    const found: KeyBody = JSON.parse(await (await ask(`/keys/${id}`)).text())
    const rotated = await make({ overlap_seconds: 0 }, `/keys/${id}/rotate`)
    const none = await ask(`/keys/key_%00${id}`)
    const revoked = await ask(`/keys/${rotated.id}`, { method: 'DELETE' })
    expect([found.id, none.status, revoked.status]).toEqual([id, 404, 204])
    for (const spy of all) expect(spy).not.toHaveBeenCalled()
  })

  it('are visible to that account alone', async () => {
    const made = await make({ scopes: ['chat'] })
    const other = await service.makeKey('other panel', ['admin'])
    expect((await list(other)).map(({ prefix }) => prefix)).toEqual([other.slice(0, 11)])
    for (const [method, path, json] of [
      ['GET', `/keys/${made.id}`],
      ['DELETE', `/keys/${made.id}`],
      ['POST', `/keys/${made.id}/rotate`, { overlap_seconds: 0 }],
    ] as const) {
      const options = { method, ...(json === undefined ? {} : { json }) }
      expect((await expectError(await ask(path, options, other), 'chat', 404)).code).toBe('unknown_key')
    }
    expect((await ask('/models', {}, made.key)).status).toBe(200)
  })

  it('need a key with the scope keys or admin', async () => {
    const plain = await service.makeKey('panel', ['plants:read', 'plants:write', 'chat', 'characters:write'])
    for (const [method, path, json] of [
      ['GET', '/keys'],
      ['POST', '/keys', { scopes: ['admin'] }],
      ['GET', '/keys/key_1'],
      ['DELETE', '/keys/key_1'],
      ['POST', '/keys/key_1/rotate', { overlap_seconds: 0 }],
    ] as const) {
      const options = { method, ...(json === undefined ? {} : { json }) }
      expect((await expectError(await ask(path, options, plain), 'chat', 403)).code).toBe('missing_scope')
      await expectError(await ask(path, { ...options, headers: { authorization: null } }), 'chat', 401)
      await expectError(await ask(path, options, makeKey()), 'chat', 401)
    }
  })
})

describe('DELETE /keys/{id}', () => {
  it('revokes at once, and the key is then a 404', async () => {
    const made = await make({ scopes: ['chat'] })
    expect((await ask('/models', {}, made.key)).status).toBe(200)
    const gone = await ask(`/keys/${made.id}`, { method: 'DELETE' })
    expect([gone.status, await gone.text()]).toEqual([204, ''])
    await expectError(await ask('/models', {}, made.key), 'chat', 401)
    expect((await list()).map(({ id }) => id)).not.toContain(made.id)
    await expectError(await ask(`/keys/${made.id}`), 'chat', 404)
    await expectError(await ask(`/keys/${made.id}`, { method: 'DELETE' }), 'chat', 404)
  })

  it('does not revoke the last working key with the scope admin of all accounts', async () => {
    const own = await serviceForThisTest()
    const [first] = JSON.parse(await (await own.request('/keys')).text()).data
    const refused = await expectError(await own.request(`/keys/${first.id}`, { method: 'DELETE' }), 'chat', 409)
    expect(refused.code).toBe('last_admin_key')
    // A rotated key, which ends after its overlap, does not count as another admin key.
    const body = { json: { overlap_seconds: 1000 } }
    const next = JSON.parse(await (await own.request(`/keys/${first.id}/rotate`, body)).text())
    await expectError(await own.request(`/keys/${next.id}`, { method: 'DELETE' }), 'chat', 409)
    await own.makeKey('ann', ['admin'])
    expect((await own.request(`/keys/${next.id}`, { method: 'DELETE' })).status).toBe(204)
  })
})

describe('POST /keys/{id}/rotate', () => {
  it('creates a key with the same properties; both work during the overlap, and then only the new one', async () => {
    const expires = Math.floor(Date.now() / 1000) + 3600
    const limits = { chat_at_once: 2 }
    const old = await make({ name: 'phone', scopes: ['chat', 'plants:read'], expires, limits })
    const made = await make({ overlap_seconds: 60 }, `/keys/${old.id}/rotate`)
    const { name, scopes: held } = old
    expect(made).toMatchObject({ name, scopes: held, expires, limits, last_used: null })
    expect(made.id).not.toBe(old.id)
    const statuses = async () => [
      (await ask('/models', {}, old.key)).status,
      (await ask('/models', {}, made.key)).status,
    ]
    expect(await statuses()).toEqual([200, 200])
    expect((await list()).find(({ id }) => id === old.id)?.expires).toBeLessThan(expires)
    const again = { json: { overlap_seconds: 0 } }
    expect((await expectError(await ask(`/keys/${old.id}/rotate`, again), 'chat', 409)).code).toBe('key_ended')
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 61_000 })
    onTestFinished(() => void vi.useRealTimers())
    await eventually(async () => expect(await statuses()).toEqual([401, 200]))
    expect((await list()).map(({ id }) => id)).not.toContain(old.id)
    await expectError(await ask(`/keys/${old.id}/rotate`, again), 'chat', 404)
  })

  it('without an overlap ends the old key at once', async () => {
    const old = await make({ scopes: ['chat'] })
    const made = await make({ overlap_seconds: 0 }, `/keys/${old.id}/rotate`)
    await expectError(await ask('/models', {}, old.key), 'chat', 401)
    expect((await ask('/models', {}, made.key)).status).toBe(200)
  })

  it.for([
    {},
    { overlap_seconds: -1 },
    { overlap_seconds: 1.5 },
    { overlap_seconds: '60' },
    { overlap_seconds: 31_536_001 },
  ])('refuses %j, and the key stays as it was', async (json) => {
    const old = await make({ scopes: ['chat'] })
    const refusal = await expectError(await ask(`/keys/${old.id}/rotate`, { json }), 'chat', 400)
    expect(refusal.param).toBe('overlap_seconds')
    expect((await ask(`/keys/${old.id}`)).status).toBe(200)
  })
})
