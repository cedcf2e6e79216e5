import postgres from 'postgres'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { PostgresPlantStore } from '../../../src/plants/postgres.ts'
import { ConnectionSlots } from '../../../src/storage/postgres/connection-slots.ts'
import { PostgresDatabase } from '../../../src/storage/postgres/database.ts'
import { PostgresGroupCommit } from '../../../src/storage/postgres/group-commit.ts'
import { duringRequest, outsideRequest } from '../../../src/storage/postgres/request-time.ts'
import { eventually } from '../../support/eventually.ts'
import { newMigratedDatabase } from '../../support/shared-postgres.ts'

const unavailable = { status: 503, code: 'database_unavailable' }

let url: string
let sql: postgres.Sql
beforeEach(async () => {
  url = await newMigratedDatabase()
  const outside = postgres(url, { max: 8, onnotice: () => {} })
  sql = outside
  onTestFinished(() => outside.end({ timeout: 1 }))
  await sql`INSERT INTO accounts (id, name, created) SELECT id, 'account ' || id, 0 FROM generate_series(1, 9) AS id`
})

/** Runs a statement in a transaction of another connection, which stays open. @returns a function that commits it */
async function hold(statement: string): Promise<() => Promise<void>> {
  const held = Promise.withResolvers<void>()
  const ending = Promise.withResolvers<void>()
  const over = sql.begin(async (transaction) => {
    await transaction.unsafe(statement)
    held.resolve()
    await ending.promise
  })
  await Promise.race([held.promise, over])
  const release = async () => {
    ending.resolve()
    await over
  }
  onTestFinished(release)
  return release
}

function openDatabase(patience?: number): PostgresDatabase {
  const database = new PostgresDatabase(url, patience)
  onTestFinished(() => database.close(0))
  return database
}

/** Resolves when this number of the service's statements wait for a lock. */
function untilWaiting(count: number): Promise<void> {
  return eventually(async () => {
    const waiting = await sql`
      SELECT pid FROM pg_stat_activity
      WHERE datname = current_database() AND application_name = 'conservatory' AND wait_event_type = 'Lock'`
    expect(waiting.length).toBeGreaterThanOrEqual(count)
  })
}

const request = (account: number) => ({ account: () => account, isAnswered: () => false })

describe('an account that another transaction has locked', () => {
  it.each([
    ['a row lock, like a deletion', 'SELECT id FROM accounts WHERE id = 1 FOR UPDATE', [1, 2, 3]],
    ['a new plant, like an import', "INSERT INTO plants (account, id, name) VALUES (1, 1, 'imported')", [2, 3, 4]],
  ])('by %s, delays no plant of other accounts, and its own plants keep their order', async (_, statement, ids) => {
    const store = new PostgresPlantStore(openDatabase(20_000))
    const release = await hold(statement)
    const own = ['a', 'b', 'c'].map((name) => store.create(1, { name }))
    const others = await Promise.all(
      Array.from({ length: 40 }, (_, index) => store.create(2 + (index % 8), { name: 'o' })),
    )
    expect(others).toHaveLength(40)
    // Later writes of other accounts do not wait either, because the locked account has its own lane.
    await untilWaiting(1)
    expect((await store.create(2, { name: 'late' })).plant.id).toBe(6)
    await release()
    expect((await Promise.all(own)).map(({ plant }) => plant.id)).toEqual(ids)
  })

  it('(i) leaves its lane when its lock is free, even while other accounts are locked', async () => {
    const store = new PostgresPlantStore(openDatabase(20_000))
    const releases = await Promise.all(
      [1, 2, 3, 4, 5].map((id) => hold(`SELECT id FROM accounts WHERE id = ${id} FOR UPDATE`)),
    )
    const writes = [1, 2, 3, 4, 5].map((account) => store.create(account, { name: 'a' }))
    await store.create(6, { name: 'a' })
    await releases[4]?.()
    expect((await writes[4])?.plant.id).toBe(1)
    expect((await store.create(5, { name: 'b' })).plant.id).toBe(2)
    for (const release of releases) await release()
    expect((await Promise.all(writes)).map(({ plant }) => plant.id)).toEqual([1, 1, 1, 1, 1])
  })

  it('(i) has a bounded queue: further writes are refused immediately', async () => {
    const store = new PostgresPlantStore(openDatabase(20_000))
    const release = await hold('SELECT id FROM accounts WHERE id = 1 FOR UPDATE')
    const first = store.create(1, { name: 'a' })
    // When the write of another account is done, the locked account has a lane of its own.
    await store.create(2, { name: 'a' })
    const writes = Array.from({ length: 1700 }, () => store.create(1, { name: 'a' }))
    await expect(
      Promise.any(
        writes.map((write) =>
          write.then(
            () => Promise.reject(new Error('written')),
            (error: unknown) => error,
          ),
        ),
      ),
    ).resolves.toMatchObject(unavailable)
    await release()
    const ends = await Promise.allSettled([first, ...writes])
    const written = ends.filter(({ status }) => status === 'fulfilled')
    expect(written.length).toBeGreaterThanOrEqual(1000)
    expect(written.length).toBeLessThan(1700)
  })

  it('(i) has two connections for all its requests, and other accounts have the rest', async () => {
    const database = openDatabase(20_000)
    const release = await hold('SELECT id FROM accounts WHERE id = 1 FOR UPDATE')
    const grant = (account: number) =>
      duringRequest(request(account), () =>
        database.transaction(
          (transaction) => transaction`INSERT INTO grants (owner, grantee, tag, created) VALUES (${account}, 9, '', 0)
            ON CONFLICT DO NOTHING`,
        ),
      )
    const own = Array.from({ length: 20 }, () => grant(1))
    await untilWaiting(2)
    await Promise.all(Array.from({ length: 20 }, () => grant(2)))
    await release()
    await Promise.all(own)
  })

  it('(i) waits for a connection of its own share, and accounts below their share do not wait behind it', async () => {
    const slots = new ConnectionSlots(3, 2)
    const entered: string[] = []
    const enter = async (who: string) => {
      const leave = await slots.enter(who, 20_000)
      entered.push(who)
      return leave
    }
    const [first] = await Promise.all([enter('ann'), enter('ann')])
    const third = enter('ann')
    const leaveBob = await enter('bob')
    const waiting = enter('cat')
    await expect(slots.enter('dan', 1)).rejects.toThrow('no connection was free')
    leaveBob()
    await waiting
    first()
    await third
    expect(entered).toEqual(['ann', 'ann', 'bob', 'cat', 'ann'])
  })
})

describe('the time of a request', () => {
  /** A group commit whose writes insert counters. */
  const openGroupCommit = (database: PostgresDatabase) =>
    new PostgresGroupCommit<string, string>(database, {
      commit: async (transaction, names) => {
        for (const name of names) await transaction`INSERT INTO counters (name, value) VALUES (${name}, 1)`
        return names
      },
    })

  it('(j) includes the wait of a write in the queue', async () => {
    const groupCommit = openGroupCommit(openDatabase(2000))
    await hold('LOCK TABLE counters IN ACCESS EXCLUSIVE MODE')
    const first = groupCommit.add('first')
    const rejected = expect(first).rejects.toMatchObject(unavailable)
    await untilWaiting(1)
    const began = performance.now()
    await expect(groupCommit.add('second')).rejects.toMatchObject(unavailable)
    // The second write waits in the queue for two seconds. A time limit that begins after the queue would add two more.
    expect(performance.now() - began).toBeLessThan(3000)
    await rejected
  })

  it('(j) may end for one write of a batch: that write is left out, and the other writes are done', async () => {
    const database = openDatabase(3000)
    const groupCommit = openGroupCommit(database)
    const release = await hold('LOCK TABLE counters IN ACCESS EXCLUSIVE MODE')
    const [late, other] = await duringRequest(request(1), async () => {
      await database.read((reading) => reading`SELECT pg_sleep(1.5)`)
      return [groupCommit.add('late'), outsideRequest(() => groupCommit.add('other'))].map((write) => ({ write }))
    })
    await expect(late?.write).rejects.toMatchObject(unavailable)
    await release()
    expect(await other?.write).toBe('other')
    expect(await sql`SELECT name FROM counters WHERE name IN ('late', 'other')`).toEqual([{ name: 'other' }])
  })

  it('(j) may end for one write during the commit of its batch, and the other writes get their answers', async () => {
    await sql.unsafe(`
      CREATE FUNCTION sleep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(2.5); RETURN NULL; END';
      CREATE CONSTRAINT TRIGGER slow_commit AFTER INSERT ON counters DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW WHEN (NEW.name = 'slow') EXECUTE FUNCTION sleep()`)
    const database = openDatabase(4000)
    const groupCommit = openGroupCommit(database)
    const [late, other] = await duringRequest(request(1), async () => {
      await database.read((reading) => reading`SELECT pg_sleep(2)`)
      return [groupCommit.add('slow'), outsideRequest(() => groupCommit.add('beside'))].map((write) => ({ write }))
    })
    await expect(late?.write).rejects.toMatchObject({ status: 503, code: 'write_unconfirmed' })
    expect(await other?.write).toBe('beside')
  })

  it('(j) also ends while a write waits for the connection of its lane', async () => {
    const database = openDatabase(4000)
    const store = new PostgresPlantStore(database)
    const release = await hold('SELECT id FROM accounts WHERE id = 1 FOR UPDATE')
    const { busy, late, other } = await duringRequest(request(1), async () => {
      await database.read((reading) => reading`SELECT pg_sleep(2.5)`)
      // These transactions take all seven connections that an account's own lane could use.
      const sleep = () => database.transaction((transaction) => transaction`SELECT pg_sleep(2.5)`)
      const busy = outsideRequest(() => Promise.all(Array.from({ length: 7 }, sleep)))
      const late = store.create(1, { name: 'late' })
      return { busy, late, other: outsideRequest(() => store.create(1, { name: 'other' })) }
    })
    await expect(late).rejects.toMatchObject(unavailable)
    await release()
    await busy
    expect((await other).plant.name).toBe('other')
    expect(await sql`SELECT name FROM plants WHERE name = 'late'`).toEqual([])
  })

  it('(j) is shared by all its waits for the database until its reply begins', async () => {
    const database = openDatabase(2000)
    let isAnswered = false
    const waiting = { account: () => 1, isAnswered: () => isAnswered }
    const sleep = () => database.read((reading) => reading`SELECT pg_sleep(1.2)`)
    await duringRequest(waiting, async () => {
      // Two waits at the same time count as one.
      await Promise.all([sleep(), sleep()])
      await expect(sleep()).rejects.toMatchObject(unavailable)
      await expect(database.transaction((transaction) => transaction`SELECT 1`)).rejects.toMatchObject(unavailable)
      await expect(openGroupCommit(database).add('late')).rejects.toMatchObject(unavailable)
      isAnswered = true
      await sleep()
    })
    expect(await sql`SELECT name FROM counters WHERE name = 'late'`).toEqual([])
  })
})
