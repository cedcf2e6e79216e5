import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { KeyRequest } from '../../src/access/access.ts'
import { connectTo } from '../support/connection.ts'
import { eventually } from '../support/eventually.ts'
import { expectError } from '../support/http.ts'
import { type RequestOptions, startTestService, type TestService } from '../support/service.ts'
import { openStoresOf } from '../support/test-database.ts'

let service: TestService
/** A key of the account `tenant`, which manages the keys of the account. */
let panel: string

const soon = Math.floor(Date.now() / 1000) + 3600

beforeAll(async () => {
  service = await startTestService()
  panel = await service.makeKey('tenant', ['chat', 'keys'])
})

afterAll(() => service?.close())

function ask(path: string, options: RequestOptions = {}, key = panel): Promise<Response> {
  return service.request(path, { ...options, headers: { authorization: key } })
}

/** Creates a key of the account `tenant`, as the command line does. */
async function make(request: Omit<KeyRequest, 'account'>): Promise<{ readonly id: string; readonly secret: string }> {
  const stores = await openStoresOf(service.dataDirectory)
  const { key, secret } = await stores.access.createKey({ account: 'tenant', ...request })
  await stores.close()
  return { id: key.id, secret }
}

async function count(): Promise<number> {
  return JSON.parse(await (await ask('/keys')).text()).data.length
}

/** Expects a 403 that names the excess, and no change. */
async function expectExcess(param: string, path: string, options: RequestOptions, key = panel): Promise<void> {
  const before = await count()
  const refusal = await expectError(await ask(path, options, key), 'chat', 403)
  expect([refusal.code, refusal.param]).toEqual(['exceeds_your_key', param])
  expect(await count()).toBe(before)
}

describe('a key with the scope keys', () => {
  it('lists, creates, rotates and revokes keys of its account', async () => {
    const made = await ask('/keys', { json: { scopes: ['chat', 'keys'], limits: { plants: 1 }, expires: soon } })
    expect(made.status).toBe(201)
    const { id } = JSON.parse(await made.text())
    const rotated = await ask(`/keys/${id}/rotate`, { json: { overlap_seconds: 0 } })
    expect(rotated.status).toBe(201)
    const next = JSON.parse(await rotated.text())
    expect((await ask('/keys', {}, next.key)).status).toBe(200)
    expect((await ask(`/keys/${next.id}`, { method: 'DELETE' })).status).toBe(204)
  })

  it('creates no key with a scope that it lacks, and none with admin', async () => {
    await expectExcess('scopes', '/keys', { json: { scopes: ['chat', 'plants:read'] } })
    await expectExcess('scopes', '/keys', { json: { scopes: ['admin'] } })
  })

  it('creates no key that lasts longer or has higher limits', async () => {
    const limits = { tokens_per_day: 10, plants: 5 }
    const bounded = (await make({ scopes: ['chat', 'keys'], expires: soon, limits })).secret
    const body = { scopes: ['chat'], expires: soon, limits }
    const refused = (param: string, change: object) =>
      expectExcess(param, '/keys', { json: { ...body, ...change } }, bounded)
    await refused('scopes', { scopes: ['plants:read'], expires: null, limits: {} })
    await refused('expires', { expires: null, limits: {} })
    await refused('expires', { expires: soon + 1 })
    await refused('limits.tokens_per_day', { limits: {} })
    await refused('limits.tokens_per_day', { limits: { ...limits, tokens_per_day: 11 } })
    await refused('limits.plants', { limits: { tokens_per_day: 9 } })
    expect((await ask('/keys', { json: { ...body, limits: { ...limits, plants: 0 } } }, bounded)).status).toBe(201)
  })

  it('creates no key with a permission that it has lost while the body was arriving', async () => {
    const stores = await openStoresOf(service.dataDirectory)
    const { key, secret } = await stores.access.createKey({ account: 'tenant', scopes: ['chat', 'keys'] })
    const body = JSON.stringify({ scopes: ['chat'] })
    const head = `Authorization: ${secret}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n`
    const { socket, text, closed } = await connectTo(
      service.url,
      // The service sends 100 Continue after it has admitted the request.
      `POST /keys HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\n${head}\r\n`,
    )
    await eventually(() => expect(text()).toContain('100 Continue'))
    await stores.access.limitKey(key.prefix, { plants: 5 }, ['understudy'])
    await stores.access.rotateKey(key.prefix, 60)
    await stores.close()
    // Over SQLite the service sees the change at once, over PostgreSQL after up to half a second.
    await eventually(async () => expect(await (await ask('/limits', {}, secret)).text()).toContain('"value":5,'))
    socket.write(body)
    await closed
    expect(text()).toContain('exceeds_your_key')
  })

  it('rotates and revokes no key with more permissions', async () => {
    const bounded = (await make({ scopes: ['chat', 'keys'], expires: soon, limits: { plants: 5 } })).secret
    for (const [param, request] of [
      ['scopes', { scopes: ['admin'], expires: soon, limits: { plants: 5 } }],
      ['scopes', { scopes: ['plants:write'], expires: soon, limits: { plants: 5 } }],
      ['expires', { scopes: ['chat'], limits: { plants: 5 } }],
      ['limits.plants', { scopes: ['chat'], expires: soon }],
    ] as const) {
      const { id } = await make(request)
      await expectExcess(param, `/keys/${id}`, { method: 'DELETE' }, bounded)
      await expectExcess(param, `/keys/${id}/rotate`, { json: { overlap_seconds: 0 } }, bounded)
      expect((await ask(`/keys/${id}`, {}, bounded)).status).toBe(200)
    }
  })

  it('that was rotated can neither make nor revoke keys that last longer than its overlap', async () => {
    const { id, secret } = await make({ scopes: ['chat', 'keys'] })
    const successor = JSON.parse(await (await ask(`/keys/${id}/rotate`, { json: { overlap_seconds: 600 } })).text())
    await expectExcess('expires', '/keys', { json: { scopes: ['chat'] } }, secret)
    await expectExcess('expires', `/keys/${successor.id}`, { method: 'DELETE' }, secret)
  })

  it('may not read the metrics', async () => {
    expect((await expectError(await ask('/metrics'), 'chat', 403)).code).toBe('missing_scope')
  })

  it('finds no key of another account', async () => {
    const [first] = JSON.parse(await (await service.request('/keys')).text()).data
    expect((await expectError(await ask(`/keys/${first.id}`, { method: 'DELETE' }), 'chat', 404)).code).toBe(
      'unknown_key',
    )
  })
})

describe('a key with the scope admin', () => {
  it('creates keys with every scope except admin', async () => {
    const { secret } = await make({ scopes: ['admin'] })
    expect((await ask('/keys', { json: { scopes: ['plants:write', 'keys'] } }, secret)).status).toBe(201)
    await expectExcess('scopes', '/keys', { json: { scopes: ['plants:write', 'admin'] } }, secret)
  })

  it('rotates a key of its own account with the same permissions', async () => {
    const { id } = await make({ scopes: ['admin'] })
    const { secret } = await make({ scopes: ['admin'] })
    const rotated = await ask(`/keys/${id}/rotate`, { json: { overlap_seconds: 0 } }, secret)
    expect(JSON.parse(await rotated.text()).scopes).toEqual(['admin'])
    expect((await ask(`/keys/${id}/rotate`, { json: { overlap_seconds: 0 } })).status).toBe(404)
  })
})
