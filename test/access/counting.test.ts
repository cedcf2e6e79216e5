import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { KeyRequest } from '../../src/access/access.ts'
import type { Limits } from '../../src/limit-values.ts'
import { eventually } from '../support/eventually.ts'
import { expectError } from '../support/http.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { openStoresOf } from '../support/test-database.ts'
import { openSql } from '../support/test-sql.ts'
import { completion, json, type ScriptedUpstream, startUpstream } from '../support/upstream.ts'

// The scripted answer of the upstream has 18 tokens.
const tokens = 18
let upstream: ScriptedUpstream
let service: TestService

beforeAll(async () => {
  upstream = await startUpstream(json(completion('Hello there.')))
  service = await startTestService({}, { gpt: { adapter: 'openai', baseUrl: upstream.url, retries: 0 } })
})

afterAll(async () => {
  await service?.close()
  await upstream?.close()
})

interface Made {
  readonly id: string
  readonly key: string
  readonly limits: Limits
}

/** Makes a key as the operator does. */
async function make(request: Partial<KeyRequest>): Promise<Made> {
  const stores = await openStoresOf(service.dataDirectory)
  const { key, secret } = await stores.access.createKey({ account: 'owner', scopes: ['chat', 'keys'], ...request })
  await stores.close()
  return { id: key.id, key: secret, limits: key.limits }
}

/** Changes the limits of a key as the operator does. */
async function limit(id: string, changes: Limits): Promise<void> {
  const stores = await openStoresOf(service.dataDirectory)
  await stores.access.limitKey(id, changes)
  await stores.close()
}

function ask(path: string, { key }: Made, body?: object): Promise<Response> {
  return service.request(path, { headers: { authorization: key }, ...(body && { json: body }) })
}

async function post(path: string, by: Made, body: object): Promise<Made> {
  const reply = await ask(path, by, body)
  expect(reply.status).toBe(201)
  return JSON.parse(await reply.text())
}

const makeChild = (by: Made, limits: Limits) => post('/keys', by, { scopes: ['chat'], limits })
const rotate = (id: string, by: Made) => post(`/keys/${id}/rotate`, by, { overlap_seconds: 600 })
const chat = (by: Made) =>
  ask('/chat/completions', by, { model: 'gpt', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 20 })

async function chatOnce(by: Made): Promise<void> {
  const reply = await chat(by)
  expect(reply.status).toBe(200)
  await reply.text()
}

/** How many of five chats are answered; the others are refused. */
async function answeredChats(by: Made): Promise<number> {
  let count = 0
  for (let chats = 0; chats < 5; chats++) {
    const reply = await chat(by)
    await reply.text()
    expect([200, 429]).toContain(reply.status)
    if (reply.status === 200) count++
  }
  return count
}

async function expectRefused(by: Made, name: string): Promise<void> {
  const refusal = await expectError(await chat(by), 'chat', 429)
  expect(refusal.message).toContain(name)
}

/** The limits of a name that a key sees: the value and the use of each. */
async function standing(by: Made, name: string): Promise<Readonly<Record<string, unknown>>> {
  const { data }: { data: { limit: string; of: string; value: number; used: number }[] } = JSON.parse(
    await (await ask('/limits', by)).text(),
  )
  const found = data.filter((each) => each.limit === name && each.of !== 'account')
  return Object.fromEntries(found.map(({ of, value, used }) => [of, [value, used]]))
}

describe('a rotation', () => {
  it.each([
    ['tokens_per_day', 60],
    ['tokens_per_month', 60],
    ['tokens_per_minute', 60],
    ['requests_per_minute', 4],
  ])('begins with the use of the key that it replaces, for %s', async (name, value) => {
    const panel = await make({})
    const old = await make({ scopes: ['chat'], limits: { [name]: value } })
    const answered = await answeredChats(old)
    const next = await rotate(old.id, panel)
    const last = await rotate(next.id, panel)
    const later = (await answeredChats(old)) + (await answeredChats(next)) + (await answeredChats(last))
    // A new limit of a minute admits one chat more at most, even if this test takes seconds.
    expect([answered > 0, later <= 1]).toEqual([true, true])
  })
})

describe('a key that a limited key has made', () => {
  it('spends what is left to its maker, whatever number of keys the maker makes', async () => {
    const maker = await make({ limits: { tokens_per_day: 100 } })
    const children: Made[] = []
    let spent = 0
    for (let count = 0; count < 8; count++) {
      const child = await makeChild(maker, { tokens_per_day: 100 })
      children.push(child)
      const reply = await chat(child)
      await reply.text()
      if (reply.status === 200) spent += tokens
    }
    expect(spent).toBeGreaterThan(0)
    expect(spent).toBeLessThanOrEqual(100)
    for (const each of [maker, ...children]) await expectRefused(each, 'tokens_per_day')
    // A rotation of the maker or of a child frees nothing.
    const next = await rotate(maker.id, maker)
    await expectRefused(next, 'tokens_per_day')
    await expectRefused(await makeChild(next, { tokens_per_day: 100 }), 'tokens_per_day')
    await expectRefused(await rotate(children[0]?.id ?? '', next), 'tokens_per_day')
  })

  it('counts its requests in its own limit and in the limit of its maker, and shows both', async () => {
    const maker = await make({ limits: { requests_per_minute: 40, tokens_per_day: 1000 } })
    const child = await makeChild(maker, { requests_per_minute: 20, tokens_per_day: 500 })
    await chatOnce(child)
    const other = await makeChild(maker, { requests_per_minute: 20, tokens_per_day: 500 })
    await chatOnce(other)
    await eventually(async () => {
      expect(await standing(child, 'tokens_per_day')).toEqual({ key: [500, tokens], maker: [1000, 2 * tokens] })
    })
    expect(await standing(maker, 'tokens_per_day')).toEqual({ key: [1000, 2 * tokens] })
    expect(await standing(await make({}), 'tokens_per_day')).toEqual({ key: [null, 0] })
  })

  it('shows no limit above that of its maker, also after the operator has lowered the maker', async () => {
    const maker = await make({ limits: { tokens_per_day: 10_000 } })
    const child = await makeChild(maker, { tokens_per_day: 10_000 })
    await limit(maker.id, { tokens_per_day: 9000, plants: 3 })
    await eventually(async () => {
      const shown: Made = JSON.parse(await (await ask(`/keys/${child.id}`, maker)).text())
      expect(shown.limits).toEqual({ tokens_per_day: 9000, plants: 3 })
    })
    await eventually(async () => {
      expect(await standing(child, 'tokens_per_day')).toEqual({ key: [9000, 0], maker: [9000, 0] })
    })
    // The maker may still manage the key, and the key has its own limit again when its maker may have more.
    const next = await rotate(child.id, maker)
    expect(next.limits).toEqual({ tokens_per_day: 9000, plants: 3 })
    await limit(maker.id, { tokens_per_day: 20_000 })
    await eventually(async () => {
      expect(await standing(next, 'tokens_per_day')).toEqual({ key: [10_000, 0], maker: [20_000, 0] })
    })
  })

  it('cannot make keys itself: a limited key does not give the scope keys away, but may be rotated', async () => {
    const maker = await make({ limits: { plants: 5 } })
    const body = { scopes: ['chat', 'keys'], limits: { plants: 5 } }
    const refusal = await expectError(await ask('/keys', maker, body), 'chat', 403)
    expect([refusal.code, refusal.param]).toEqual(['exceeds_your_key', 'scopes'])
    const next = await rotate(maker.id, maker)
    expect((await ask('/keys', next)).status).toBe(200)
    expect((await ask('/keys', await make({}), { scopes: ['chat', 'keys'] })).status).toBe(201)
  })

  it('counts for its maker also after the row of the maker is gone', async () => {
    const maker = await make({ limits: { tokens_per_day: 60 } })
    const [first, second] = [
      await makeChild(maker, { tokens_per_day: 60 }),
      await makeChild(maker, { tokens_per_day: 60 }),
    ]
    expect(await answeredChats(first)).toBeGreaterThan(0)
    const sql = await openSql(service.dataDirectory)
    await sql.run(`DELETE FROM keys WHERE id = '${maker.id}'`)
    await sql.close()
    expect(await answeredChats(second)).toBe(0)
  })
})
