import { expect, it } from 'vitest'
import type { Limits } from '../../src/limit-values.ts'
import { dayOf } from '../../src/time.ts'
import { eventually } from '../support/eventually.ts'
import { expectError } from '../support/http.ts'
import { serviceForThisTest, type TestService } from '../support/service.ts'
import { storesForThisTest } from '../support/test-database.ts'
import { sqlForThisTest, type TestSql } from '../support/test-sql.ts'

const today = () => dayOf(Date.now())

interface Made {
  readonly id: string
  readonly key: string
}

async function makeKey(service: TestService, limits?: Limits, by = service.key): Promise<Response> {
  const headers = { authorization: by }
  return service.request('/keys', { headers, json: { scopes: ['chat'], ...(limits && { limits }) } })
}

async function made(reply: Response): Promise<Made> {
  expect(reply.status).toBe(201)
  return JSON.parse(await reply.text())
}

async function expectOver(reply: Response, limit: number): Promise<void> {
  const { code, message } = await expectError(reply, 'chat', 429)
  expect(code).toBe('rate_limit_exceeded')
  expect(message).toContain(`changes_per_day of ${limit}`)
  const wait = Number(reply.headers.get('retry-after'))
  expect(wait).toBeGreaterThan(0)
  expect(wait).toBeLessThanOrEqual(86_400)
}

async function recordCount(sql: TestSql): Promise<number> {
  return (await sql.run('SELECT id FROM audit_records')).length
}

/** The value and the use of the limit that a key sees, by its owner. */
async function standing(service: TestService, key: string): Promise<Readonly<Record<string, unknown>>> {
  const reply = await service.request('/limits', { headers: { authorization: key } })
  const { data }: { data: { limit: string; of: string; value: number; used: number; resets: number }[] } = JSON.parse(
    await reply.text(),
  )
  const found = data.filter(({ limit }) => limit === 'changes_per_day')
  return Object.fromEntries(found.map(({ of, value, used }) => [of, [value, used]]))
}

it('an account makes at most changes_per_day changes by requests: keys and characters, and a refused one changes nothing', async () => {
  const service = await serviceForThisTest({ LIMITS: 'changes_per_day=5' })
  const sql = await sqlForThisTest(service.dataDirectory)
  const card = JSON.stringify({ name: 'Fern', description: 'A fern.' })
  const put = (text = card) =>
    service.request('/characters/Fern', {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: text,
    })
  const remove = () => service.request('/characters/Fern', { method: 'DELETE' })
  const key = await made(await makeKey(service))
  const next = await made(await service.request(`/keys/${key.id}/rotate`, { json: { overlap_seconds: 0 } }))
  expect([(await put()).status, (await remove()).status, (await put()).status]).toEqual([201, 204, 201])
  const before = await recordCount(sql)
  await expectOver(await makeKey(service), 5)
  await expectOver(await put(JSON.stringify({ name: 'Fern', description: 'Another fern.' })), 5)
  await expectOver(await remove(), 5)
  expect(await recordCount(sql)).toBe(before)
  expect((await service.request('/characters/Fern')).status).toBe(200)
  // A stolen key can be revoked all the same.
  expect((await service.request(`/keys/${next.id}`, { method: 'DELETE' })).status).toBe(204)
  expect(await recordCount(sql)).toBe(before + 1)
  expect(await standing(service, service.key)).toEqual({ account: [5, 5], key: [null, 0] })
  // Other accounts and commands are not counted there, and the next day begins anew.
  const { access } = await storesForThisTest(service.dataDirectory)
  await access.createKey({ account: 'owner', scopes: ['chat'] })
  const panel = await service.makeKey('others', ['chat', 'keys'])
  await made(await makeKey(service, undefined, panel))
  await sql.run(`UPDATE spend SET day = '2026-01-01' WHERE subject LIKE 'changes:%'`)
  await made(await makeKey(service))
})

it('the limit is 10,000 by default, and audit records stay until AUDIT_DAYS are over', async () => {
  const service = await serviceForThisTest()
  const sql = await sqlForThisTest(service.dataDirectory)
  await sql.run(`INSERT INTO spend (subject, day, tokens) VALUES ('changes:account:1', '${today()}', 9999)`)
  await made(await makeKey(service))
  await expectOver(await makeKey(service), 10_000)
  const { access } = await storesForThisTest(service.dataDirectory)
  await access.limitAccount('owner', { changes_per_day: 'none' })
  await eventually(async () => made(await makeKey(service)))
})

it('a limit of a key counts its own changes, those of its successor, and those of keys that it has made', async () => {
  const service = await serviceForThisTest()
  const { access } = await storesForThisTest(service.dataDirectory)
  const limits = { changes_per_day: 3 }
  const { key, secret } = await access.createKey({ account: 'owner', scopes: ['chat', 'keys'], limits })
  await made(await makeKey(service))
  const child = await made(await makeKey(service, limits, secret))
  const rotated = await service.request(`/keys/${key.id}/rotate`, {
    headers: { authorization: secret },
    json: { overlap_seconds: 600 },
  })
  const next = await made(rotated)
  await made(await makeKey(service, limits, next.key))
  await expectOver(await makeKey(service, limits, next.key), 3)
  expect(await standing(service, next.key)).toEqual({ account: [10_000, 4], key: [3, 3] })
  expect(await standing(service, child.key)).toEqual({ account: [10_000, 4], maker: [3, 3], key: [3, 0] })
  await made(await makeKey(service))
})

it('changes at the same time are counted one by one', async () => {
  const service = await serviceForThisTest({ LIMITS: 'changes_per_day=5' })
  const replies = await Promise.all(Array.from({ length: 12 }, () => makeKey(service)))
  expect(replies.filter(({ status }) => status === 201)).toHaveLength(5)
  await Promise.all(replies.map((reply) => reply.text()))
})
