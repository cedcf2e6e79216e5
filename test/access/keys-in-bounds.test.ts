import { expect, it } from 'vitest'
import { digestKey } from '../../src/access/key.ts'
import { unixSeconds } from '../../src/time.ts'
import { eventually } from '../support/eventually.ts'
import { expectError } from '../support/http.ts'
import { serviceForThisTest, type TestService } from '../support/service.ts'
import { storesForThisTest } from '../support/test-database.ts'
import { sqlForThisTest, type TestSql } from '../support/test-sql.ts'

/** Adds keys as SQL: `keys create` for each would take too long. @param end null, or SQL of the end */
async function addKeys(sql: TestSql, count: number, end: number | null = null, account = 1): Promise<void> {
  const name = `${account}-${count}-${end ?? 'none'}`
  await sql.run(`INSERT INTO keys (id, account, prefix, digest, scopes, created, revoked)
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})
    SELECT 'key_${name}-' || i, ${account}, 'p_${name}-' || i, 'd_${name}-' || i, 'chat', 5, CAST(${end ?? 'NULL'} AS BIGINT) FROM n`)
}

const newKey = (service: TestService) => service.request('/keys', { json: { scopes: ['chat'] } })

async function made(reply: Response): Promise<{ readonly id: string; readonly prefix: string; readonly key: string }> {
  expect(reply.status).toBe(201)
  return JSON.parse(await reply.text())
}

it('an account has at most 1,000 working keys by requests; ended keys do not count, and a command may make more', async () => {
  const service = await serviceForThisTest()
  const sql = await sqlForThisTest(service.dataDirectory)
  await addKeys(sql, 500, unixSeconds() - 10)
  // The first key of the service is a working key too, and so is a key during its overlap.
  await addKeys(sql, 600)
  await addKeys(sql, 398, unixSeconds() + 3600)
  const last = await made(await newKey(service))
  const expectFull = async (reply: Response) => expect((await expectError(reply, 'chat', 429)).code).toBe('keys_limit')
  await expectFull(await newKey(service))
  const rotate = (id: string, overlap_seconds: number) =>
    service.request(`/keys/${id}/rotate`, { json: { overlap_seconds } })
  await expectFull(await rotate(last.id, 3600))
  // A rotation without an overlap makes no key more, so a leaked key can always be replaced.
  const next = await made(await rotate(last.id, 0))
  const limits = await (await service.request('/limits')).text()
  expect(JSON.parse(limits).data).toContainEqual({
    limit: 'keys',
    of: 'account',
    value: 1000,
    used: 1000,
    resets: null,
  })
  const { access } = await storesForThisTest(service.dataDirectory)
  await access.createKey({ account: 'owner', scopes: ['chat'] })
  await access.createAccount('others')
  await access.createKey({ account: 'others', scopes: ['chat'] })
  expect((await service.request(`/keys/${next.id}`, { method: 'DELETE' })).status).toBe(204)
  await expectFull(await newKey(service))
  await access.limitAccount('owner', { keys: 1001 })
  await eventually(async () => made(await newKey(service)))
})

it('several requests at the same time make no key beyond the limit', async () => {
  const service = await serviceForThisTest({ LIMITS: 'keys=4' })
  const replies = await Promise.all(Array.from({ length: 12 }, () => newKey(service)))
  expect(replies.filter(({ status }) => status === 201)).toHaveLength(3)
  await Promise.all(replies.map((reply) => reply.text()))
})

it('keys are removed some time after their end, whether they were revoked, rotated or have expired', async () => {
  const service = await serviceForThisTest()
  const { access } = await storesForThisTest(service.dataDirectory)
  const sql = await sqlForThisTest(service.dataDirectory)
  const make = async () => (await access.createKey({ account: 'owner', scopes: ['chat'] })).key.id
  const ids = [await make(), await make(), await make(), await make(), await make()]
  const ends = [
    'revoked = 100',
    'expires = 100',
    'revoked = 900, expires = 100',
    'revoked = 300',
    'expires = 300, revoked = 900',
  ]
  for (const [index, end] of ends.entries()) await sql.run(`UPDATE keys SET ${end} WHERE id = '${ids[index]}'`)
  const lasting = await make()
  expect(await access.prune(200, 2)).toBe(2)
  expect(await access.prune(200, 500)).toBe(1)
  expect(await access.prune(200, 500)).toBe(0)
  const left = (await access.listKeys('owner')).map(({ id }) => id)
  expect(ids.filter((id) => left.includes(id))).toEqual(ids.slice(3))
  expect(left).toContain(lasting)
  expect((await service.request('/keys')).status).toBe(200)
})

it('a new key has a prefix of 8 characters after cv_; a key with a shorter prefix works on', async () => {
  const service = await serviceForThisTest()
  const { key, prefix, id } = await made(await newKey(service))
  expect(prefix).toBe(key.slice(0, 11))
  const sql = await sqlForThisTest(service.dataDirectory)
  await sql.run(`UPDATE keys SET prefix = '${key.slice(0, 7)}' WHERE id = '${id}'`)
  const { access } = await storesForThisTest(service.dataDirectory)
  await eventually(async () => {
    const reply = await service.request('/limits', { headers: { authorization: key } })
    expect(JSON.parse(await reply.text()).key.prefix).toBe(key.slice(0, 7))
  })
  expect((await access.revokeKey(key.slice(0, 7))).id).toBe(id)
  expect(await access.findKey(digestKey(key))).toMatchObject({ revoked: expect.any(Number) })
})

it('a request changes a key of its own account alone, also when a key of another account has that id as its prefix', async () => {
  const service = await serviceForThisTest()
  const { id } = await made(await newKey(service))
  const { access } = await storesForThisTest(service.dataDirectory)
  const { id: account } = await access.createAccount('others')
  const other = await access.createKey({ account: 'others', scopes: ['chat'] })
  const sql = await sqlForThisTest(service.dataDirectory)
  await sql.run(`UPDATE keys SET prefix = '${id}' WHERE id = '${other.key.id}'`)
  expect((await service.request(`/keys/${other.key.id}`, { method: 'DELETE' })).status).toBe(404)
  expect((await service.request(`/keys/${id}/rotate`, { json: { overlap_seconds: 0 } })).status).toBe(201)
  expect(await access.readKey(id)).toMatchObject({ revoked: expect.any(Number) })
  expect(await access.readKey(other.key.id)).toMatchObject({ revoked: null })
  await expect(access.revokeKey({ id, account })).rejects.toThrow('There is no such key')
  await expect(access.rotateKey({ id: other.key.id, account: 1 }, 0)).rejects.toThrow('There is no such key')
})
