import { setTimeout as wait } from 'node:timers/promises'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import type { Key } from '../../src/access/access.ts'
import { ApiError } from '../../src/errors.ts'
import type { Limits } from '../../src/limit-values.ts'
import type { Reservation } from '../../src/limits/limiter.ts'
import { PostgresCounts } from '../../src/limits/postgres.ts'
import { removeIdleRows } from '../../src/limits/postgres-rows.ts'
import { SharedLimiter } from '../../src/limits/shared-limiter.ts'
import { PostgresDatabase, type Transaction } from '../../src/storage/postgres/database.ts'
import { Conflict } from '../../src/storage/postgres/failures.ts'
import { migratePostgres } from '../../src/storage/postgres/migrate.ts'
import { dayOf } from '../../src/time.ts'
import { PostgresLedger } from '../../src/usage/postgres.ts'
import { TestClock } from '../support/clock.ts'
import { eventually, until } from '../support/eventually.ts'
import { crowd, placesAtOnce, properEndings, startWatchfulUpstream, watchedModels } from '../support/limit-rounds.ts'
import { keyOf } from '../support/limits.ts'
import { startPostgres } from '../support/postgres.ts'
import { serviceForThisTest } from '../support/service.ts'
import { newMigratedDatabase } from '../support/shared-postgres.ts'

/** The number of accounts so far: each test has its own account. */
let accounts = 0
const limitedKey = (limits: Limits) => keyOf(`key-${++accounts}`, accounts, {}, limits)

/** The result of a call, or the status of its refusal. */
async function statusOr<T>(call: () => T | Promise<T>): Promise<T | number> {
  try {
    return await call()
  } catch (error) {
    if (error instanceof ApiError) return error.status
    throw error
  }
}

/** The lease in milliseconds, after which a dead replica's share of a limit is free. It is longer than any test. */
const lease = 600_000

/** Makes all shares of replicas older by so many milliseconds. */
async function pass(database: PostgresDatabase, milliseconds: number): Promise<void> {
  await database.transaction((sql) => sql`UPDATE limit_shares SET expires = expires - ${milliseconds}`)
}

/** How many replicas have renewed their shares within half a lease. */
async function freshShares(database: PostgresDatabase): Promise<number> {
  const [row] = await database.read(
    (sql) => sql<{ fresh: number }[]>`
      SELECT count(DISTINCT replica)::bigint AS fresh FROM limit_shares
      WHERE expires - extract(epoch FROM clock_timestamp()) * 1000 > ${lease / 2}`,
  )
  return row?.fresh ?? 0
}

/** Begins thirty chats in parallel, on three replicas in turn. @returns the reservations of the admitted chats */
async function reserveThirty(
  replicas: readonly { readonly limiter: SharedLimiter }[],
  key: Key,
  tokens: number,
): Promise<readonly Reservation[]> {
  const answers = await Promise.all(
    Array.from({ length: 30 }, (_, index) =>
      statusOr(async () => replicas[index % 3]?.limiter.reserve(key, () => tokens)),
    ),
  )
  return answers.filter((answer) => typeof answer === 'object')
}

describe.each(['read committed', 'serializable'])('three replicas, transactions %s', (isolation) => {
  let url: string
  beforeAll(async () => {
    url = await newMigratedDatabase(isolation)
  })

  /** A replica's limiter, with its own connections to the database. */
  function openReplica() {
    const database = new PostgresDatabase(url)
    const clock = new TestClock()
    const counts = new PostgresCounts(database, lease, clock)
    let isOpen = true
    /** Ends the replica as a crash would: it releases nothing. */
    const die = async () => {
      if (isOpen) await database.close(0)
      isOpen = false
    }
    onTestFinished(async () => {
      if (isOpen) await counts.close()
      await die()
    })
    const limiter = new SharedLimiter({ settings: {}, counts, clock })
    return { limiter, counts, database, clock, die }
  }
  const openThree = () => [openReplica(), openReplica(), openReplica()] as const

  it('never have more chats in flight than the limit, and count the end of every chat', async () => {
    const replicas = openThree()
    const key = limitedKey({ chat_at_once: 10 })
    let most = 0
    let goingOn = 0
    const refused: number[] = []
    const callers = Array.from({ length: 100 }, async (_, caller) => {
      for (let call = 0; call < 3; call++) {
        const replica = replicas[(caller + call) % 3] ?? replicas[0]
        const held = await statusOr(() => replica.limiter.reserve(key, () => 1))
        if (typeof held === 'number') {
          refused.push(held)
          continue
        }
        most = Math.max(most, ++goingOn)
        await wait(Math.random() * 20)
        goingOn--
        await held.settle(0)
      }
    })
    await Promise.all(callers)
    expect(most).toBe(10)
    expect(new Set(refused)).toEqual(new Set([429]))
    expect(refused.length).toBeGreaterThan(100)
    // As soon as all chats are settled, each replica can begin ten chats again.
    for (const { limiter } of replicas) {
      const held = await Promise.all(Array.from({ length: 10 }, () => limiter.reserve(key, () => 1)))
      expect(await statusOr(() => replicas[0].limiter.reserve(key, () => 1))).toBe(429)
      await Promise.all(held.map((each) => each.settle(0)))
    }
    const [rows] = await replicas[0].database.read(
      (sql) => sql<{ chats: number }[]>`
        SELECT sum(chats)::bigint AS chats FROM limit_shares WHERE subject = ${`account:${key.account.id}`}`,
    )
    expect(rows?.chats).toBe(0)
  })

  it('count a prompt as a chat in flight and in the tokens of the minute, but in no day or month', async () => {
    const [here, there] = openThree()
    const key = limitedKey({ chat_at_once: 1, tokens_per_minute: 100, tokens_per_day: 50, tokens_per_month: 50 })
    const prompt = await here.limiter.reserve(key, () => 60, 'prompt')
    expect(prompt).toMatchObject({ tokens: 60, hasSpendingLimit: false, allowance: { limit: 100, remaining: 40 } })
    expect(await statusOr(() => there.limiter.reserve(key, () => 1))).toBe(429)
    const held = await there.limiter.readTallies(key, ({ account: { chats, reserved } }) => [chats, reserved])
    expect(held).toEqual([1, 0])
    await prompt.settle(55)
    const left = await there.limiter.readTallies(key, ({ account }, now) => [
      account.chats,
      account.reserved,
      account.spending?.today(now),
      account.tokens.used(now, 100) <= 55,
    ])
    expect(left).toEqual([0, 0, 0, true])
    const answer = await there.limiter.reserve(key, () => 45)
    expect(answer).toMatchObject({ hasSpendingLimit: true })
    await answer.settle(0)
  })

  it('remove counts that are idle for a day in batches, and nothing else', async () => {
    const [here, there] = openThree()
    const idle = async () => {
      const [row] = await here.database.read(
        (sql) => sql<{ left: number }[]>`SELECT count(*) AS left FROM limit_counts WHERE subject LIKE 'idle %'`,
      )
      return row?.left
    }
    // Rows of earlier tests are removed first.
    while ((await here.database.transaction((sql) => removeIdleRows(sql, 1000))) > 0);
    await here.database.transaction(
      (sql) => sql`
        INSERT INTO limit_counts (subject, requests_taken, requests_at, tokens_taken, tokens_at)
        SELECT 'idle ' || id, 0, 0, 0, 0 FROM generate_series(1, 2500) AS ids (id)`,
    )
    expect(await here.database.transaction((sql) => removeIdleRows(sql, 300))).toBe(300)
    expect(await idle()).toBe(2200)
    const key = limitedKey({ chat_at_once: 1 })
    const held = await there.limiter.reserve(key, () => 1)
    await eventually(async () => expect(await idle()).toBe(0))
    expect(await statusOr(() => here.limiter.reserve(key, () => 1))).toBe(429)
    await held.settle(0)
  })

  it('count the chats of a live replica, and no longer those of a dead replica', async () => {
    const [dying, living, third] = openThree()
    const key = limitedKey({ chat_at_once: 3 })
    await dying.limiter.reserve(key, () => 1)
    await dying.limiter.reserve(key, () => 1)
    const kept = await living.limiter.reserve(key, () => 1)
    expect(await statusOr(() => third.limiter.reserve(key, () => 1))).toBe(429)
    await dying.die()
    expect(await statusOr(() => third.limiter.reserve(key, () => 1))).toBe(429)
    const back: Reservation[] = []
    const take = async () => {
      const held = await statusOr(() => third.limiter.reserve(key, () => 1))
      if (typeof held !== 'number') back.push(held)
      return back.length
    }
    /** Lets a lease pass by the database's clock, while these replicas renew their shares. */
    const passLease = async (...holding: (typeof third)[]) => {
      await pass(third.database, (3 / 4) * lease)
      for (const { clock } of holding) clock.advance(lease / 4)
      await until(async () => (await freshShares(third.database)) >= holding.length)
      await pass(third.database, lease / 4)
    }
    await passLease(living)
    expect([await take(), await take(), await take()]).toEqual([1, 2, 2])
    // A lease later, the chat of the live replica still counts.
    await passLease(living, third)
    expect(await take()).toBe(2)
    await kept.settle(0)
    expect(await take()).toBe(3)
  })

  it('admit no more requests in a minute than one replica would, and refuse without another query', async () => {
    const replicas = openThree()
    const limit = 60
    const key = limitedKey({ requests_per_minute: limit })
    const begin = performance.now()
    const answers = await Promise.all(
      Array.from({ length: 300 }, async (_, index) => {
        await wait((index % 10) * 3)
        return statusOr(() => replicas[index % 3]?.limiter.admit(key))
      }),
    )
    const left = answers.filter((answer) => typeof answer === 'object').map(({ remaining }) => remaining)
    const trickled = Math.ceil((performance.now() - begin) / 1000)
    expect(left.length).toBeGreaterThanOrEqual(limit)
    expect(left.length).toBeLessThanOrEqual(limit + trickled)
    // Each reply shows what is left for all replicas.
    expect(new Set(left).size).toBeGreaterThanOrEqual(limit)
    expect(new Set(answers.filter((answer) => typeof answer !== 'object'))).toEqual(new Set([429]))
    const { limiter, die } = replicas[1]
    await die()
    await expect(async () => limiter.admit(key)).rejects.toMatchObject({ status: 429, headers: { 'retry-after': '1' } })
  })

  it('prefetch requests when they are busy, and admit at most one batch beyond the limit', async () => {
    const replicas = openThree()
    const limit = 600
    // A batch has at most as many requests as refill in a second.
    const batch = limit / 60
    const key = limitedKey({ requests_per_minute: limit })
    let questions = 0
    for (const { counts } of replicas) {
      const take = counts.take.bind(counts)
      counts.take = (...args) => {
        questions++
        return take(...args)
      }
    }
    const begin = performance.now()
    const admitted = await Promise.all(
      replicas.map(async ({ limiter }) => {
        for (let count = 0; ; count++) if ((await statusOr(() => limiter.admit(key))) === 429) return count
      }),
    )
    const sum = admitted.reduce((one, other) => one + other)
    const trickled = ((performance.now() - begin) / 1000) * batch
    expect(sum).toBeLessThanOrEqual(limit + trickled + batch)
    expect(sum).toBeGreaterThanOrEqual(limit - replicas.length * batch)
    expect(questions).toBeLessThan(sum * 0.75)
  })

  it('spend the tokens of a minute together, and return unused tokens to all', async () => {
    const replicas = openThree()
    const key = limitedKey({ tokens_per_minute: 1000 })
    // A third chat would fit after half a minute.
    const held = await reserveThirty(replicas, key, 500)
    expect(held).toHaveLength(2)
    await Promise.all(held.map((each) => each.settle(1)))
    const again = await replicas[2].limiter.reserve(key, () => 500)
    expect(again.allowance?.remaining).toBeGreaterThanOrEqual(498)
    expect(again.allowance?.remaining).toBeLessThanOrEqual(500)
    await again.settle(3000)
    // All replicas share the debt of tokens that were used beyond the estimate.
    expect(await statusOr(() => replicas[0].limiter.reserve(key, () => 1))).toBe(429)
  })

  it('reserve the tokens of a day together, until the spent ones are recorded', async () => {
    const replicas = openThree()
    const key = limitedKey({ tokens_per_day: 100 })
    const held = await reserveThirty(replicas, key, 10)
    expect(held).toHaveLength(10)
    const [first, ...others] = held
    const record = Promise.withResolvers<void>()
    const settled = first?.settle(7, record.promise)
    await Promise.all(others.map((each) => each.settle(0, Promise.resolve())))
    expect(await statusOr(() => replicas[1].limiter.reserve(key, () => 91))).toBe(429)
    await replicas[0].database.transaction(
      (sql) => sql`INSERT INTO spend VALUES (${`account:${key.account.id}`}, ${dayOf(Date.now())}, 7)`,
    )
    record.resolve()
    await settled
    expect(await statusOr(() => replicas[1].limiter.reserve(key, () => 94))).toBe(429)
    expect(await statusOr(() => replicas[2].limiter.reserve(key, () => 93))).toMatchObject({ tokens: 93 })
  })

  it("keep a request's reserved tokens until its end is recorded, even if the first write fails", async () => {
    const replicas = openThree()
    const [{ database, counts }] = replicas
    const ledger = new PostgresLedger(database)
    onTestFinished(() => ledger.stop())
    const here = new SharedLimiter({ settings: {}, counts, caughtUp: () => ledger.caughtUp() })
    const key = limitedKey({ tokens_per_day: 100, chat_at_once: 1 })
    const id = `req_${isolation}`
    const entry = {
      id,
      account: key.account.id,
      keyId: key.id,
      keyPrefix: key.prefix,
      model: 'any',
      modelUsed: null,
      character: null,
      created: Math.floor(Date.now() / 1000),
      reservedTokens: 90,
      promptTokens: 0,
      completionTokens: 0,
      tokensExact: true,
      firstTokenMs: null,
      totalMs: 1,
      retries: 0,
      state: 'running',
    }
    const held = await here.reserve(key, () => 90)
    await ledger.begin(entry)
    const run = (text: string) => database.transaction((sql) => sql.unsafe(text))
    await run(`
      CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = 'disk_full'; END $$;
      CREATE TRIGGER refuse BEFORE UPDATE ON requests FOR EACH ROW EXECUTE FUNCTION refuse()`)
    const recorded = ledger.finish({ ...entry, state: 'stop', promptTokens: 40 })
    const settled = held.settle(40, recorded)
    await expect(recorded).rejects.toMatchObject({ status: 507 })
    await settled
    // The chat is no longer in flight, but its tokens are still reserved. A request that begins now is refused, and not recorded.
    expect(await statusOr(() => replicas[1].limiter.reserve(key, () => 20))).toBe(429)
    await expect(ledger.begin({ ...entry, id: `${id} refused` })).rejects.toMatchObject({ status: 507 })
    expect(ledger.queued()).toBe(1)
    await run('DROP TRIGGER refuse ON requests; DROP FUNCTION refuse')
    const again = await eventually(async () => {
      const next = await statusOr(() => replicas[1].limiter.reserve(key, () => 60))
      expect(next).toMatchObject({ tokens: 60 })
      return next
    })
    expect(again).not.toBe(429)
    const rows = await database.read(
      (sql) => sql<{ state: string }[]>`SELECT state, prompt_tokens FROM requests WHERE account = ${key.account.id}`,
    )
    expect([...rows]).toEqual([{ state: 'stop', prompt_tokens: 40 }])
    expect(await statusOr(() => replicas[2].limiter.reserve(key, () => 1))).toBe(429)
  })
})

/** A database in which every transaction fails once at its commit, and runs again. */
class Contended extends PostgresDatabase {
  override transaction<T>(work: (sql: Transaction) => Promise<T>): Promise<T> {
    let isFirst = true
    return super.transaction(async (sql) => {
      const result = await work(sql)
      if (isFirst) {
        isFirst = false
        throw new Conflict()
      }
      return result
    })
  }
}

it('a transaction that runs again is counted once', async () => {
  const url = await newMigratedDatabase('serializable')
  const databases = [new Contended(url), new PostgresDatabase(url)] as const
  onTestFinished(async () => {
    for (const database of databases) await database.close()
  })
  const counts = databases.map((database) => new PostgresCounts(database))
  const [here, there] = counts.map((each) => new SharedLimiter({ settings: {}, counts: each }))
  if (!here || !there) throw new Error('there are two')
  const key = limitedKey({ chat_at_once: 2, requests_per_minute: 10, tokens_per_minute: 100 })
  expect(await here.admit(key)).toMatchObject({ remaining: 9 })
  expect(await there.admit(key)).toMatchObject({ remaining: 8 })
  const first = await here.reserve(key, () => 30)
  expect(first.allowance).toMatchObject({ remaining: 70 })
  const second = await here.reserve(key, () => 30)
  expect(await statusOr(() => there.reserve(key, () => 1))).toBe(429)
  await first.settle(10)
  const third = await there.reserve(key, () => 59)
  expect(third.allowance?.remaining).toBeLessThanOrEqual(2)
  expect(await statusOr(() => here.reserve(key, () => 1))).toBe(429)
  await Promise.all([second.settle(0), third.settle(0)])
  const all = [await here.reserve(key, () => 1), await there.reserve(key, () => 1)]
  expect(await statusOr(() => here.reserve(key, () => 1))).toBe(429)
  await Promise.all(all.map((each) => each.settle(0)))
  await Promise.all(counts.map((each) => each.close()))
})

it('without a limit no query is sent to the database', async () => {
  const counts = { take: () => Promise.reject(new Error('asked')), release: () => Promise.reject(new Error('asked')) }
  const limiter = new SharedLimiter({ settings: { plants: 3 }, counts })
  const key = limitedKey({})
  expect(limiter.admit(key)).toBeUndefined()
  const held = await limiter.reserve(key, () => 1)
  expect([limiter.inFlightChats, held.settle(5), limiter.inFlightChats]).toStrictEqual([1, undefined, 0])
})

it('limited requests get a 503 while the database is away; afterwards no count and no end of a chat is lost', async () => {
  const falling = await startPostgres()
  onTestFinished(() => falling.stop())
  const url = await falling.createDatabase()
  const databases = [new PostgresDatabase(url), new PostgresDatabase(url)] as const
  await migratePostgres(databases[0])
  const clock = new TestClock()
  const counts = databases.map((database) => new PostgresCounts(database, lease, clock))
  const [here, there] = counts.map((each) => new SharedLimiter({ settings: {}, counts: each }))
  onTestFinished(async () => {
    for (const each of counts) await each.close()
    for (const database of databases) await database.close()
  })
  if (!here || !there) throw new Error('there are two')
  const key = limitedKey({ chat_at_once: 2, requests_per_minute: 100 })
  const [first, second] = [await here.reserve(key, () => 1), await here.reserve(key, () => 1)]
  await falling.kill()
  const away = { status: 503, code: 'database_unavailable' }
  const ending = second.settle(0)
  await Promise.all([
    expect(there.reserve(key, () => 1)).rejects.toMatchObject(away),
    expect(async () => there.admit(key)).rejects.toMatchObject(away),
    // `settle` throws no error, although its query fails too.
    ending,
  ])
  await falling.start()
  // One of the next two renewals repeats the release.
  await until(async () => {
    clock.advance(lease / 4)
    return typeof (await statusOr(() => there.reserve(key, () => 1))) === 'object'
  })
  expect(await statusOr(() => there.reserve(key, () => 1))).toBe(429)
  await first.settle(0)
  expect(await statusOr(() => there.reserve(key, () => 1))).toMatchObject({ tokens: 0 })
}, 60_000)

it.for(['read committed', 'serializable'])(
  'of a hundred parallel chats over three services at most ten are in flight, and none is counted after its end (%s)',
  {
    timeout: 60_000,
  },
  async (isolation) => {
    const upstream = await startWatchfulUpstream()
    onTestFinished(() => upstream.close())
    const environment = {
      DATABASE_URL: await newMigratedDatabase(isolation),
      BOOTSTRAP_KEY: 'a-key-for-tests-of-limits',
      LIMITS: `chat_at_once=${placesAtOnce},tokens_per_day=1000000000`,
    }
    const urls: string[] = []
    for (let replica = 0; replica < 3; replica++) {
      urls.push((await serviceForThisTest(environment, watchedModels(upstream.url))).url)
    }
    const { endings, areFree } = await crowd(urls, 'a-key-for-tests-of-limits', 1, upstream)
    expect(areFree).toBe(true)
    expect(upstream.tooMany()).toBe(0)
    expect(endings).toStrictEqual(properEndings)
  },
)
