import postgres, { type Sql } from 'postgres'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { PostgresPlantStore } from '../../../src/plants/postgres.ts'
import { connectPostgres } from '../../../src/storage/postgres/connect.ts'
import { PostgresDatabase, type Queries } from '../../../src/storage/postgres/database.ts'
import { startFaultOf } from '../../../src/storage/postgres/start-faults.ts'
import { eventually } from '../../support/eventually.ts'
import { type Meddling, proxyForThisTest } from '../../support/postgres-proxy.ts'
import { newMigratedDatabase } from '../../support/shared-postgres.ts'

let databaseUrl: string
/** A connection without a proxy. */
let direct: Sql
let accounts = 0
beforeAll(async () => {
  databaseUrl = await newMigratedDatabase()
  direct = postgres(databaseUrl, { max: 1, onnotice: () => {} })
})
afterAll(async () => {
  await direct.end()
})

/** An account, and a store that reaches the database through a proxy. */
async function scene(meddling: Meddling) {
  const account = ++accounts
  await direct`INSERT INTO accounts (id, name, created) VALUES (${account}, ${`account ${account}`}, 0)`
  const proxy = await proxyForThisTest(databaseUrl, meddling)
  const database = await connectPostgres(proxy.url)
  onTestFinished(() => database.close())
  const store = new PostgresPlantStore(database)
  return {
    proxy,
    database,
    add: (name: string) => store.create(account, { name }),
    list: () => store.list(account, {}, 10),
    /** The names of the stored plants. */
    names: async () => {
      const rows = await direct<{ name: string }[]>`SELECT name FROM plants WHERE account = ${account} ORDER BY id`
      return rows.map(({ name }) => name)
    },
  }
}

/** Runs SQL before each COMMIT of the client for which `isDue` returns true. */
function beforeCommits(sql: string, isDue: () => boolean): Meddling {
  return { before: (statement) => (/^commit$/i.test(statement) && isDue() ? sql : undefined) }
}

describe('a COMMIT', () => {
  it('that is answered with ROLLBACK has committed nothing, and the transaction is retried', async () => {
    let failures = 0
    // After a failed statement, PostgreSQL answers COMMIT with ROLLBACK.
    const { add, names } = await scene(beforeCommits('SELECT 1 / 0', () => failures-- > 0))
    failures = 1
    await add('Fern')
    expect(await names()).toStrictEqual(['Fern'])
  })

  it('that is answered with ROLLBACK until the time is over becomes a 503', async () => {
    let isBroken = false
    const { add, names } = await scene(beforeCommits('SELECT 1 / 0', () => isBroken))
    isBroken = true
    await expect(add('Fern')).rejects.toMatchObject({ status: 503 })
    expect(await names()).toStrictEqual([])
  })

  it('outside a transaction, which the server answers with COMMIT and a warning, is not taken for success', async () => {
    let isBroken = false
    const { add, names } = await scene(beforeCommits('ROLLBACK', () => isBroken))
    isBroken = true
    await expect(add('Fern')).rejects.toMatchObject({ status: 503, code: 'write_unconfirmed' })
    isBroken = false
    await add('Moss')
    expect(await names()).toStrictEqual(['Moss'])
  })

  it('that fails with an SQLSTATE of an unknown outcome is reported as write_unconfirmed', async () => {
    const { database } = await scene({})
    await direct.unsafe(`
      CREATE TABLE open_ended (name TEXT);
      CREATE FUNCTION leave_open() RETURNS trigger LANGUAGE plpgsql
        AS $$ BEGIN RAISE 'nobody knows' USING ERRCODE = '40003'; END $$;
      CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON open_ended DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION leave_open()`)
    const write = database.transaction((sql) => sql`INSERT INTO open_ended VALUES ('Fern')`)
    await expect(write).rejects.toMatchObject({ status: 503, code: 'write_unconfirmed' })
  })

  it('that the server refuses is rolled back, and no other transaction of the connection is rolled back', async () => {
    const { database } = await scene({})
    await direct`CREATE TABLE late (name TEXT UNIQUE DEFERRABLE INITIALLY DEFERRED)`
    const note = (name: string) => database.transaction((sql) => sql`INSERT INTO late VALUES (${name})`)
    await note('Fern')
    const names = Array.from({ length: 30 }, (_, index) => (index % 2 === 0 ? 'Fern' : `Moss ${index}`))
    const ended = await Promise.allSettled(names.map(note))
    expect(ended.map(({ status }) => status)).toStrictEqual(
      names.map((name) => (name === 'Fern' ? 'rejected' : 'fulfilled')),
    )
    expect((await direct`SELECT name FROM late`).length).toBe(16)
  })
})

describe('behind a pooler', () => {
  it.each<[string, Meddling]>([
    ['accepts settings and reports another process id', { hidesPid: true }],
    ['refuses statement_timeout', { refusedSetting: 'statement_timeout' }],
  ])('that %s, no statement is prepared by name, and each has a time limit', async (_, meddling) => {
    const { proxy, database, add, list, names } = await scene(meddling)
    expect(database.isPooled).toBe(true)
    proxy.takeNames()
    await add('Fern')
    await list()
    expect(proxy.takeNames()).toStrictEqual([])
    expect(await names()).toStrictEqual(['Fern'])
    const timeout = (sql: Queries) => sql`SELECT current_setting('statement_timeout') AS timeout`
    // A request has five seconds in total. A statement of a transaction gets the part of them that is left.
    expect(await database.transaction(timeout)).toMatchObject([
      { timeout: expect.stringMatching(/^(?:5s|[1-4]\d{3}ms)$/) },
    ])
    const snapshot = database.snapshot(async function* (sql) {
      yield await timeout(sql)
    })
    for await (const rows of snapshot) expect(rows).toMatchObject([{ timeout: '5s' }])
  })

  it('that loses prepared statements silently, no write is lost, and no more statements are prepared', async () => {
    let begins = 0
    const forget = (statement: string) =>
      /^begin/i.test(statement) && begins++ % 2 === 0 ? 'DEALLOCATE ALL' : undefined
    const { proxy, database, add, names } = await scene({ before: forget })
    const wanted = Array.from({ length: 20 }, (_, index) => `Plant ${index}`)
    for (const name of wanted) await add(name)
    expect(await names()).toStrictEqual(wanted)
    expect(database.isPooled).toBe(true)
    proxy.takeNames()
    await add('Fern')
    expect(proxy.takeNames()).toStrictEqual([])
  })

  it('that supports prepared statements, statements are prepared if the URL has prepare=true', async () => {
    const proxy = await proxyForThisTest(databaseUrl, { hidesPid: true })
    const database = await connectPostgres(`${proxy.url}?prepare=true`)
    onTestFinished(() => database.close())
    proxy.takeNames()
    await database.read((sql) => sql`SELECT 1`)
    expect(proxy.takeNames()).toHaveLength(1)
  })

  it('that pools single statements, the start fails with the setting to change', async () => {
    const proxy = await proxyForThisTest(databaseUrl, { hidesPid: true, refusesTransactions: true })
    await expect(connectPostgres(proxy.url)).rejects.toThrow(
      /PgBouncer.*pool_mode = statement.*pool_mode = transaction/,
    )
  })

  it('that refuses another setting, the start fails with the name of that setting', async () => {
    const url = new URL(databaseUrl)
    url.searchParams.set('search_path', 'plants')
    const proxy = await proxyForThisTest(url.href, { refusedSetting: 'search_path' })
    await expect(connectPostgres(proxy.url)).rejects.toThrow('unsupported startup parameter: search_path')
  })

  it('that refuses another setting and then does not answer, the start fails with the name of that setting', async () => {
    const url = new URL(databaseUrl)
    url.searchParams.set('search_path', 'plants')
    let tries = 0
    const proxy = await proxyForThisTest(url.href, { refusedSetting: 'search_path', isSilent: () => tries++ > 0 })
    const database = new PostgresDatabase(proxy.url, 300)
    onTestFinished(() => database.close(0))
    const thrown: unknown = await database.read((sql) => sql`SELECT 1`).catch((error: unknown) => error)
    expect(startFaultOf(thrown).says).toContain('unsupported startup parameter: search_path')
  })
})

it('without a pooler, statements are prepared, and the server ends slow statements', async () => {
  const { database, proxy } = await scene({})
  expect(database.isPooled).toBe(false)
  proxy.takeNames()
  const rows = await database.read((sql) => sql`SELECT current_setting('statement_timeout') AS timeout`)
  expect(rows).toMatchObject([{ timeout: '5s' }])
  expect(proxy.takeNames()).toHaveLength(1)
})

it('(k) when a pooler ends a connection, new connections go to the next host: the pooler may have lost its server', async () => {
  const asked: string[] = []
  const pooler = (name: string) =>
    proxyForThisTest(databaseUrl, {
      hidesPid: true,
      before: () => {
        asked.push(name)
        return undefined
      },
    })
  const [first, second] = [await pooler('first'), await pooler('second')]
  const hosts = [first, second].map(({ url }) => new URL(url).host).join(',')
  const database = await connectPostgres(databaseUrl.replace(new URL(databaseUrl).host, hosts))
  onTestFinished(() => database.close())
  const read = () => database.read((sql) => sql<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`)
  const [row] = await read()
  expect(new Set(asked)).toEqual(new Set(['first']))
  await direct`SELECT pg_terminate_backend(${row?.pid ?? 0})`
  await eventually(async () => {
    await read()
    expect(asked).toContain('second')
  })
})

it('a promoted server is used although its pooler still calls it a standby, because the server itself is asked', async () => {
  const { url } = await proxyForThisTest(databaseUrl, { hidesPid: true, tellsOfStandby: true })
  const database = await connectPostgres(`${url}?target_session_attrs=read-write`)
  onTestFinished(() => database.close())
  const [row] = await database.read((sql) => sql<{ role: string }[]>`SELECT 'in_hot_standby' || chr(1) AS role`)
  expect(row?.role).toBe('in_hot_standby\x01')
  await expect(database.transaction((sql) => sql`SELECT 1`)).resolves.toHaveLength(1)
})

it('a read that waits at an abandoned pooler is retried at the next pooler before the time of the read is over', async () => {
  let isWaiting = false
  const [first, second] = [
    await proxyForThisTest(databaseUrl, { hidesPid: true, isWaiting: () => isWaiting }),
    await proxyForThisTest(databaseUrl, { hidesPid: true }),
  ]
  const hosts = [first, second].map(({ url }) => new URL(url).host).join(',')
  const database = await connectPostgres(databaseUrl.replace(new URL(databaseUrl).host, hosts))
  onTestFinished(() => database.close())
  const read = () => database.read((sql) => sql<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`)
  const [[one]] = await Promise.all([read(), read()])
  isWaiting = true
  await direct`SELECT pg_terminate_backend(${one?.pid ?? 0})`
  await expect(read()).resolves.toHaveLength(1)
})
