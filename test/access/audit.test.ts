import { expect, it } from 'vitest'
import type { AuditRecord } from '../../src/audit/record.ts'
import { allRecords, byKey } from '../support/audit.ts'
import { expectError } from '../support/http.ts'
import { serviceForThisTest, type TestService } from '../support/service.ts'
import { storesForThisTest } from '../support/test-database.ts'

interface Page {
  readonly object: string
  readonly data: readonly AuditRecord[]
  readonly has_more: boolean
}

async function pageOf(service: TestService, query = '', key = service.key): Promise<Page> {
  const response = await service.request(`/audit${query}`, { headers: { authorization: `Bearer ${key}` } })
  expect(response.status).toBe(200)
  return JSON.parse(await response.text())
}

it('lists all records for the operator, page by page, without a gap', async () => {
  const service = await serviceForThisTest()
  const stores = await storesForThisTest(service.dataDirectory)
  for (const name of ['ann', 'bob', 'cid']) await stores.access.createAccount(name)
  const made = await service.request('/keys', { json: { scopes: ['chat'], name: 'phone' } })
  expect(made.status).toBe(201)
  const all = await allRecords(stores)
  expect(all).toHaveLength(6)
  expect(all.at(-1)).toMatchObject(byKey(service.key, 'owner'))
  expect(await pageOf(service)).toEqual({ object: 'list', data: all, has_more: false })
  const found: AuditRecord[] = []
  for (let after = '', more = true; more; after = `&after=${found.at(-1)?.id}`) {
    const page = await pageOf(service, `?limit=2${after}`)
    found.push(...page.data)
    more = page.has_more
  }
  expect(found).toEqual(all)
  await stores.access.suspendAccount('ann')
  expect((await pageOf(service, `?after=${found.at(-1)?.id}`)).data).toMatchObject([{ action: 'account.suspended' }])
  const ofAnn = [{ action: 'account.created' }, { action: 'account.suspended' }]
  expect((await pageOf(service, '?account=ann')).data).toMatchObject(ofAnn)
  expect((await pageOf(service, '?account=ann&action=account.created')).data).toEqual([all[2]])
  for (const name of ['nobody', '%00', '']) expect((await pageOf(service, `?account=${name}`)).data).toEqual([])
  expect((await pageOf(service, `?since=${all[0]?.at}`)).data).toHaveLength(7)
  expect((await pageOf(service, '?since=253402300799')).data).toEqual([])
})

it('lists for a key with the scope keys only the records of its own account', async () => {
  const service = await serviceForThisTest()
  const stores = await storesForThisTest(service.dataDirectory)
  const old = await service.makeKey('ann', ['keys'])
  await stores.deleteAccount('ann')
  const key = await service.makeKey('ann', ['keys', 'chat', 'characters:write'])
  await stores.access.createAccount('bob')
  const [ann, bob] = (await stores.access.listAccounts()).slice(1)
  await stores.plants.share(bob?.id ?? 0, ann?.id ?? 0)
  await stores.plants.share(ann?.id ?? 0, bob?.id ?? 0, 'moss')
  const headers = { authorization: `Bearer ${key}` }
  const made = await service.request('/keys', { json: { scopes: ['chat'] }, headers })
  expect(made.status).toBe(201)
  const { prefix }: { prefix: string } = JSON.parse(await made.text())
  // A new account with the name of the deleted account does not see the old records.
  const own = await pageOf(service, '', key)
  expect(own.data).toMatchObject([
    { action: 'account.created', target: 'ann' },
    { action: 'key.created', target: key.slice(0, 11) },
    { action: 'share.granted', target: 'ann>bob#moss' },
    { action: 'key.created', target: prefix, ...byKey(key, 'ann') },
  ])
  expect(JSON.stringify(own)).not.toContain(old.slice(0, 11))
  expect((await pageOf(service, '?account=ann')).data).toHaveLength(7)
  const [first] = await allRecords(stores)
  const foreign = await service.request(`/audit?after=${first?.id}`, { headers })
  expect((await expectError(foreign, 'chat', 400)).param).toBe('after')
  for (const name of ['ann', 'bob', 'owner']) {
    const refused = await expectError(await service.request(`/audit?account=${name}`, { headers }), 'chat', 403)
    expect(refused).toMatchObject({ code: 'missing_scope', param: 'account' })
  }
})

it.each([
  ['127.0.0.0/8', '203.0.113.9'],
  ['', '127.0.0.1'],
])('with TRUSTED_PROXIES=%s records the address %s of a forwarded request', async (proxies, from) => {
  const service = await serviceForThisTest({ TRUSTED_PROXIES: proxies })
  const headers = { 'x-forwarded-for': '198.51.100.7, 203.0.113.9' }
  expect((await service.request('/keys', { json: { scopes: ['chat'] }, headers })).status).toBe(201)
  expect((await pageOf(service)).data.at(-1)).toMatchObject({ action: 'key.created', from })
})

it('refuses invalid queries, and keys without the scope', async () => {
  const service = await serviceForThisTest()
  const stores = await storesForThisTest(service.dataDirectory)
  await stores.access.createAccount('ann')
  const [first] = await allRecords(stores)
  const wrong = [
    ['since=soon', 'since'],
    ['since=2026-11-20', 'since'],
    ['since=-1', 'since'],
    ['since=1.5', 'since'],
    ['since=1&since=2', 'since'],
    ['since=', 'since'],
    ['action=key.made', 'action'],
    ['action=', 'action'],
    ['limit=0', 'limit'],
    ['limit=1001', 'limit'],
    ['after=audit_none', 'after'],
    [`after=${first?.id}&account=ann`, 'after'],
    ['after=%00', 'after'],
  ]
  for (const [query, param] of wrong) {
    const error = await expectError(await service.request(`/audit?${query}`), 'chat', 400)
    expect([query, error.param]).toEqual([query, param])
  }
  const none = await service.request('/audit', { headers: { authorization: null } })
  expect((await expectError(none, 'chat', 401)).code).toBe('missing_api_key')
  const key = await service.makeKey('ann', ['plants:read', 'plants:write', 'chat', 'characters:write'])
  for (const query of ['', '?account=owner', '?account=ann']) {
    const refused = await service.request(`/audit${query}`, { headers: { authorization: `Bearer ${key}` } })
    expect((await expectError(refused, 'chat', 403)).code).toBe('missing_scope')
  }
})
