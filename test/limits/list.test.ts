import { describe, expect, it, onTestFinished } from 'vitest'
import { limitNames } from '../../src/limit-values.ts'
import { expectError } from '../support/http.ts'
import { makeLimitedKey } from '../support/limits.ts'
import { serviceForThisTest, type TestService } from '../support/service.ts'
import { storesForThisTest } from '../support/test-database.ts'
import { openSql } from '../support/test-sql.ts'
import { completion, json, upstreamForThisTest } from '../support/upstream.ts'

interface Limit {
  readonly limit: string
  readonly of: string
  readonly value: number | null
  readonly used: number | null
  readonly resets: number | null
}

/** The limits that a key gets, by their names, such as `plants of account`. */
async function limitsOf(service: TestService, key: string): Promise<Readonly<Record<string, Limit>>> {
  const response = await service.request('/limits', { headers: { authorization: key } })
  expect(response.status).toBe(200)
  const body: { data: readonly Limit[] } = JSON.parse(await response.text())
  expect(body).toEqual({ object: 'list', key: expect.any(Object), data: expect.any(Array), has_more: false })
  return Object.fromEntries(body.data.map((each) => [`${each.limit} of ${each.of}`, each]))
}

/** The next UTC midnight and the first of the next month, Unix seconds. */
function resets() {
  const now = new Date()
  const [year, month] = [now.getUTCFullYear(), now.getUTCMonth()]
  return { day: Date.UTC(year, month, now.getUTCDate() + 1) / 1000, month: Date.UTC(year, month + 1, 1) / 1000 }
}

const messages = [{ role: 'user', content: 'Hello' }]

describe('GET /limits', () => {
  it('lists every limit of the account and of the key, set or not, for a key of any scope', async () => {
    const service = await serviceForThisTest()
    const key = await service.makeKey('owner', ['plants:read'])
    await service.request('/plants', { json: { name: 'Fern' } })
    const found = await limitsOf(service, key)
    expect(Object.keys(found)).toEqual(limitNames.flatMap((name) => [`${name} of account`, `${name} of key`]))
    expect(found['tokens_per_day of key']).toEqual({
      limit: 'tokens_per_day',
      of: 'key',
      value: null,
      used: 0,
      resets: null,
    })
    expect(found['plants of account']).toMatchObject({ value: null, used: 1 })
    expect(
      (await expectError(await service.request('/limits', { headers: { authorization: null } }), 'chat', 401)).code,
    ).toBe('missing_api_key')
  })

  it("shows the key's account, its scopes and its expiry", async () => {
    const service = await serviceForThisTest()
    const keyOf = async (authorization: string) => {
      const response = await service.request('/limits', { headers: { authorization } })
      const { key }: { key: unknown } = JSON.parse(await response.text())
      return key
    }
    const expires = Math.floor(Date.now() / 1000) + 3600
    const reader = await service.makeKey('readers', ['plants:read'], expires)
    expect(await keyOf(reader)).toEqual({
      ...{ account: 'readers', prefix: reader.slice(0, 11), name: null },
      ...{ scopes: ['plants:read'], expires },
    })
    expect(await keyOf(service.key)).toMatchObject({ account: 'owner', name: 'first key', expires: null })
    const [, id = ''] = /"id":"([^"]+)"/.exec(await (await service.request('/keys')).text()) ?? []
    expect((await service.request(`/keys/${id}/rotate`, { json: { overlap_seconds: 60 } })).status).toBe(201)
    expect(await keyOf(service.key)).toMatchObject({ expires: expect.any(Number) })
  })

  it('counts at most ten thousand plants without a limit, and all plants with a limit', async () => {
    const service = await serviceForThisTest()
    const key = await service.makeKey('owner', ['plants:read'])
    const used = async () => (await limitsOf(service, key))['plants of account']?.used
    const sql = await openSql(service.dataDirectory)
    onTestFinished(() => sql.close())
    const add = (first: number, last: number) =>
      sql.run(`INSERT INTO plants (account, id, name) WITH RECURSIVE ids (id) AS
        (SELECT ${first} UNION ALL SELECT id + 1 FROM ids WHERE id < ${last}) SELECT 1, id, 'Moss' FROM ids`)
    await add(1, 10_000)
    expect(await used()).toBe(10_000)
    await add(10_001, 10_001)
    expect(await used()).toBeNull()
    const limited = await makeLimitedKey(service.dataDirectory, { plants: 20_000 })
    expect((await limitsOf(service, limited))['plants of key']?.used).toBe(10_001)
  })

  it('shows the use of the key, and of all keys of its account', async () => {
    const upstream = await upstreamForThisTest(json(completion('Hello there.')))
    const openAi = { adapter: 'openai', baseUrl: upstream.url, retries: 0 }
    const settings = { LIMITS: 'tokens_per_month=100000,requests_per_minute=6,plants=9' }
    const service = await serviceForThisTest(settings, { gpt: openAi })
    const key = await makeLimitedKey(service.dataDirectory, { tokens_per_day: 50_000, requests_per_minute: 3 })
    for (const authorization of [key, service.key]) {
      const headers = { authorization }
      const reply = await service.request('/chat/completions', { headers, json: { model: 'gpt', messages } })
      expect(reply.status).toBe(200)
      await reply.text()
    }
    await service.request('/plants', { json: { name: 'Monstera' } })
    const before = resets()
    const found = await limitsOf(service, key)
    const { day, month } =
      [before, resets()].find((each) => each.day === found['tokens_per_day of key']?.resets) ?? before
    // The scripted answer has 11 tokens of the prompt and 7 of the completion.
    const tokens = 18
    expect(found).toMatchObject({
      'tokens_per_day of key': { value: 50_000, used: tokens, resets: day },
      'tokens_per_day of account': { value: null, used: 2 * tokens, resets: null },
      'tokens_per_month of key': { value: null, used: tokens, resets: null },
      'tokens_per_month of account': { value: 100_000, used: 2 * tokens, resets: month },
      'requests_per_minute of key': { value: 3, used: 2, resets: expect.any(Number) },
      'requests_per_minute of account': { value: 6, used: 4, resets: expect.any(Number) },
      'plants of account': { value: 9, used: 1, resets: null },
      'plants of key': { value: null, used: 1, resets: null },
      'chat_at_once of account': { value: null, used: 0, resets: null },
    })
  })

  it('counts in-flight chats and their reserved tokens', async () => {
    const upstream = await upstreamForThisTest((response) => response.flushHeaders())
    const openAi = { adapter: 'openai', baseUrl: upstream.url, retries: 0 }
    const service = await serviceForThisTest({ LIMITS: 'chat_at_once=5,tokens_per_day=5000' }, { gpt: openAi })
    const leaving = new AbortController()
    const reply = service
      .request('/chat/completions', { json: { model: 'gpt', messages, max_tokens: 700 }, signal: leaving.signal })
      .catch(() => undefined)
    await upstream.called(1)
    const found = await limitsOf(service, service.key)
    expect(found['chat_at_once of account']).toMatchObject({ value: 5, used: 1, resets: null })
    expect(found['tokens_per_day of account']?.used).toBeGreaterThanOrEqual(700)
    leaving.abort()
    await reply
  })

  it('follows a change of a limit, and may show more used than the limit', async () => {
    const service = await serviceForThisTest()
    for (const name of ['Fern', 'Moss', 'Ivy']) await service.request('/plants', { json: { name } })
    const { access } = await storesForThisTest(service.dataDirectory)
    await access.limitAccount('owner', { plants: 2 })
    await expect
      .poll(async () => (await limitsOf(service, service.key))['plants of account'])
      .toMatchObject({ value: 2, used: 3 })
  })
})
