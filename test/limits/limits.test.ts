import { expect, it, onTestFinished } from 'vitest'
import type { Limits } from '../../src/limit-values.ts'
import { pruneOnce } from '../../src/storage/prune.ts'
import { readChatError, readCompletion } from '../support/chat.ts'
import { serveForThisTest } from '../support/command.ts'
import { eventually } from '../support/eventually.ts'
import { expectError } from '../support/http.ts'
import { ledgerRows, makeLimitedKey } from '../support/limits.ts'
import { serviceForThisTest, startTestService, type TestService, temporaryFolder } from '../support/service.ts'
import { storesForThisTest } from '../support/test-database.ts'
import { sqlForThisTest } from '../support/test-sql.ts'

const hello = { model: 'understudy', messages: [{ role: 'user', content: 'Good morning to you.' }] }

function chat(service: TestService, key: string, more: Readonly<Record<string, unknown>> = {}): Promise<Response> {
  return service.request('/chat/completions', {
    headers: { authorization: `Bearer ${key}` },
    json: { ...hello, max_tokens: 20, ...more },
  })
}

function plants(service: TestService, key: string): Promise<Response> {
  return service.request('/plants', { headers: { authorization: `Bearer ${key}` } })
}

it('requests_per_minute counts plants and chat together, and each interface shows it in its own headers', async () => {
  const service = await serviceForThisTest()
  const key = await makeLimitedKey(service.dataDirectory, { requests_per_minute: 3 })
  const first = await plants(service, key)
  expect(first.status).toBe(200)
  expect(first.headers.get('ratelimit-policy')).toBe('"requests_per_minute";q=3;w=60')
  expect(first.headers.get('ratelimit')).toBe('"requests_per_minute";r=2;t=20')
  expect(first.headers.get('x-ratelimit-limit-requests')).toBeNull()
  const second = await chat(service, key)
  expect(second.status).toBe(200)
  expect(second.headers.get('x-ratelimit-limit-requests')).toBe('3')
  expect(second.headers.get('x-ratelimit-remaining-requests')).toBe('1')
  expect(second.headers.get('x-ratelimit-reset-requests')).toMatch(/^(3\d|40)s$/)
  expect(second.headers.get('x-ratelimit-limit-tokens')).toBeNull()
  expect((await chat(service, key, { stream: true })).headers.get('x-ratelimit-remaining-requests')).toBe('0')

  const refusedPlants = await plants(service, key)
  expect(refusedPlants.headers.get('retry-after')).toMatch(/^(1?\d|20)$/)
  expect(refusedPlants.headers.get('ratelimit')).toMatch(/^"requests_per_minute";r=0;t=(5\d|60)$/)
  expect((await expectError(refusedPlants, 'plants', 429)).message).toMatch(
    /^The request would exceed the limit requests_per_minute of 3\. Try again in \d+ s\.$/,
  )
  const refusedChat = await chat(service, key)
  expect(refusedChat.headers.get('retry-after')).toMatch(/^(1?\d|20)$/)
  expect(refusedChat.headers.get('x-ratelimit-remaining-requests')).toBe('0')
  expect((await expectError(refusedChat, 'chat', 429)).code).toBe('rate_limit_exceeded')
  // The owner's first key has no limit.
  expect((await service.request('/plants')).headers.get('ratelimit')).toBeNull()
})

it('tokens_per_minute is in the headers, returns unused tokens, and is named when it is reached', async () => {
  const service = await serviceForThisTest()
  const key = await makeLimitedKey(service.dataDirectory, { tokens_per_minute: 300 })
  const first = await chat(service, key)
  expect(first.status).toBe(200)
  const { usage = { total_tokens: 0 } } = await readCompletion(first)
  const reserved = 300 - Number(first.headers.get('x-ratelimit-remaining-tokens'))
  expect(reserved).toBeGreaterThan(20)
  const second = await chat(service, key, { stream: true })
  const left = Number(second.headers.get('x-ratelimit-remaining-tokens'))
  expect(left).toBeGreaterThanOrEqual(300 - usage.total_tokens - reserved)
  expect(second.headers.get('x-ratelimit-reset-tokens')).toMatch(/^\d+m?s$/)
  await second.text()
  const refused = await chat(service, key, { max_tokens: 280 })
  expect(refused.headers.get('retry-after')).toMatch(/^\d+$/)
  expect(refused.headers.get('x-ratelimit-limit-tokens')).toBe('300')
  expect((await readChatError(refused)).message).toMatch(/tokens_per_minute/)
})

it('the receipt of a prompt counts in the minute and as a chat in flight, but in no day, month or ledger', async () => {
  const service = await serviceForThisTest()
  // The limits of a day and a month are too low for any prompt.
  const limits = { tokens_per_minute: 100, tokens_per_day: 1, tokens_per_month: 1 }
  const key = await makeLimitedKey(service.dataDirectory, limits)
  const receipt = (of: string, content = 'Good morning to you. '.repeat(4)) =>
    service.request('/chat/prompt', {
      headers: { authorization: `Bearer ${of}` },
      json: { ...hello, messages: [{ role: 'user', content }] },
    })
  const first = await receipt(key)
  expect([first.status, first.headers.get('x-ratelimit-limit-tokens')]).toEqual([200, '100'])
  const { tokens } = JSON.parse(await first.text())
  // The estimate is higher than the number of tokens of the prompt, so the difference is returned.
  const estimate = 100 - Number(first.headers.get('x-ratelimit-remaining-tokens'))
  expect(estimate).toBeGreaterThan(tokens.total)
  const second = await receipt(key)
  const left = Number(second.headers.get('x-ratelimit-remaining-tokens'))
  expect(left).toBeLessThan(100 - estimate)
  expect(left).toBeGreaterThanOrEqual(100 - estimate - tokens.total)
  const refused = await receipt(key, 'word '.repeat(100))
  expect([refused.status, refused.headers.get('x-ratelimit-limit-tokens')]).toEqual([429, '100'])
  expect((await expectError(refused, 'chat', 429)).message).toMatch(/ tokens, and the limit tokens_per_minute is 100\./)
  expect((await readChatError(await chat(service, key))).message).toMatch(/tokens_per_day/)
  const found = await service.request('/limits', { headers: { authorization: `Bearer ${key}` } })
  const standings: readonly { limit: string; used: number }[] = JSON.parse(await found.text()).data
  const used = standings.filter(({ limit }) => /^tokens_per_(?:day|month)$|once/.test(limit)).map((each) => each.used)
  expect(used).toEqual([0, 0, 0, 0, 0, 0])
  const sql = await sqlForThisTest(service.dataDirectory)
  expect(await ledgerRows(sql)).toEqual([])
  const none = await makeLimitedKey(service.dataDirectory, { chat_at_once: 0 })
  const full = await receipt(none)
  expect([full.status, full.headers.get('retry-after')]).toEqual([429, '1'])
  expect((await readChatError(full)).message).toMatch(/^The request would exceed the limit chat_at_once of 0/)
})

it('a limit of the settings holds for the whole account, and a new key does not lift it', async () => {
  const service = await serviceForThisTest({ LIMITS: 'requests_per_minute=9,chat_at_once=1000,tokens_per_minute=200' })
  const newKey = async (limits: Record<string, number>): Promise<string> => {
    const made = await service.request('/keys', { json: { scopes: ['plants:read', 'chat', 'keys'], limits } })
    expect(made.status).toBe(201)
    return JSON.parse(await made.text()).key
  }
  const [lower, higher] = [
    await newKey({ requests_per_minute: 2 }),
    await newKey({ requests_per_minute: 1000, tokens_per_minute: 1_000_000 }),
  ]
  const left = async (key: string) => (await plants(service, key)).headers.get('ratelimit')?.split(';', 2)[1]
  // Two of the nine requests made the keys. The headers show the limit with the fewest left: first the key's, then the account's.
  expect([await left(lower), await left(higher)]).toEqual(['r=1', 'r=5'])
  const reply = await chat(service, higher)
  expect(reply.headers.get('x-ratelimit-limit-requests')).toBe('9')
  expect(reply.headers.get('x-ratelimit-limit-tokens')).toBe('200')
  const refused = await chat(service, higher, { max_tokens: 300 })
  expect([refused.status, (await readChatError(refused)).message]).toEqual([
    429,
    expect.stringMatching(/the limit tokens_per_minute is 200\./),
  ])
  expect((await plants(service, lower)).status).toBe(200)
  const ofKey = await plants(service, lower)
  expect(ofKey.headers.get('ratelimit-policy')).toBe('"requests_per_minute";q=2;w=60')
  expect((await expectError(ofKey, 'plants', 429)).message).toMatch(
    /^The request would exceed the limit requests_per_minute of 2/,
  )
  expect((await plants(service, higher)).status).toBe(200)
  expect((await plants(service, higher)).status).toBe(200)
  const ofAccount = await plants(service, higher)
  expect(ofAccount.headers.get('ratelimit-policy')).toBe('"requests_per_minute";q=9;w=60')
  expect((await expectError(ofAccount, 'plants', 429)).message).toMatch(
    /^The request would exceed the limit requests_per_minute of 9/,
  )
  expect((await service.request('/plants')).status).toBe(429)
})

it("each start warns once of each key whose own limit is above its account's", async () => {
  const { path, remove } = temporaryFolder()
  onTestFinished(remove)
  const stores = await storesForThisTest(path)
  await stores.access.createAccount('greenhouse', { plants: 10 })
  const make = (limits: Limits) => stores.access.createKey({ account: 'greenhouse', scopes: ['chat'], limits })
  const { key: above } = await make({ plants: 11, chat_at_once: 6, tokens_per_day: 5 })
  await make({ plants: 10, chat_at_once: 5 })
  const { key: revoked } = await make({ plants: 100 })
  await stores.access.revokeKey(revoked.id)
  const service = await serveForThisTest({ DATA_DIR: path, LIMITS: 'chat_at_once=5', LOG_LEVEL: 'silent' })
  const lines = () =>
    service
      .stderr()
      .split('\n')
      .filter((line) => line.startsWith('The key '))
  await eventually(() => expect(lines()).toHaveLength(2))
  expect((await fetch(`${service.url}/livez`)).status).toBe(200)
  const { prefix } = above
  expect(lines()).toEqual([
    `The key ${prefix} has the limit chat_at_once=6, above the 5 of its account "greenhouse": both hold. Lower it: conservatory keys limit ${prefix} --limit chat_at_once=5`,
    `The key ${prefix} has the limit plants=11, above the 10 of its account "greenhouse": both hold. Lower it: conservatory keys limit ${prefix} --limit plants=10`,
  ])
})

it('tokens_per_day holds over a restart, also for tokens that were spent before the limit was set', async () => {
  const { path, remove } = temporaryFolder()
  onTestFinished(remove)
  const settings = { DATA_DIR: path, BOOTSTRAP_KEY: 'a-key-for-tests-of-limits' }
  const before = await startTestService(settings)
  const { usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 } } = await readCompletion(
    await chat(before, before.key),
  )
  await before.close()
  const sql = await sqlForThisTest(path)
  expect(await ledgerRows(sql)).toMatchObject([
    {
      prompt_tokens: usage.prompt_tokens,
      completion_tokens: usage.completion_tokens,
      tokens_exact: 1,
      reserved_tokens: 0,
    },
  ])

  const service = await serviceForThisTest({ ...settings, LIMITS: `tokens_per_day=${usage.total_tokens + 10}` })
  const refused = await chat(service, service.key, { max_tokens: 1 })
  expect(Number(refused.headers.get('retry-after'))).toBeLessThanOrEqual(86_400)
  expect((await readChatError(refused)).message).toMatch(/tokens_per_day/)
  // The ledger has no request that a limit refused.
  expect(await ledgerRows(sql)).toHaveLength(1)
})

it("entries older than the ledger's retention are removed in batches", async () => {
  const { path, remove } = temporaryFolder()
  onTestFinished(remove)
  const stores = await storesForThisTest(path)
  const entry = (count: number) => ({
    id: `req_${count}`,
    account: 1,
    keyId: 'key_1',
    keyPrefix: 'cv_ab12',
    model: 'any',
    modelUsed: null,
    character: null,
    created: count,
    reservedTokens: 0,
    promptTokens: 1,
    completionTokens: 1,
    tokensExact: true,
    firstTokenMs: null,
    totalMs: 1,
    retries: 0,
    state: 'stop',
  })
  for (let count = 0; count < 500; count++) stores.ledger.record(entry(count))
  await stores.ledger.flush()
  expect(await pruneOnce(stores.ledger, 450)).toBe(450)
  expect(await pruneOnce(stores.ledger, 1000)).toBe(50)
  expect(await stores.ledger.spent('key:key_1', '1970-01-01', '1970-01-01')).toBe(1000)
})
