import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { PostgresPlantStore } from '../../src/plants/postgres.ts'
import { connectPostgres } from '../../src/storage/postgres/connect.ts'
import type { PostgresDatabase } from '../../src/storage/postgres/database.ts'
import { type PostgresServer, startPostgres } from '../support/postgres.ts'
import { type Meddling, type PostgresProxy, proxyForThisTest } from '../support/postgres-proxy.ts'

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

interface Scene {
  readonly proxy: PostgresProxy
  readonly database: PostgresDatabase
  readonly store: PostgresPlantStore
  /** The names of the plants that are there, asked without the proxy. */
  names(): Promise<readonly string[]>
}

/** A database with one account, and a store that reaches it through a proxy. */
async function scene(meddling: Meddling): Promise<Scene> {
  const url = await server.createDatabase()
  await (await connectPostgres(url)).close()
  const direct = postgres(url, { max: 1, onnotice: () => {} })
  onTestFinished(() => direct.end())
  await direct`INSERT INTO accounts (id, name, created) VALUES (1, 'ann', 0)`
  const proxy = await proxyForThisTest(url, meddling)
  const database = await connectPostgres(proxy.url)
  onTestFinished(() => database.close())
  const names = async () => {
    const rows = await direct<{ name: string }[]>`SELECT name FROM plants ORDER BY id`
    return rows.map(({ name }) => name)
  }
  return { proxy, database, store: new PostgresPlantStore(database), names }
}

/** SQL before each COMMIT of the client but so many. */
function beforeCommits(sql: string, isDue: () => boolean): Meddling {
  return { before: (statement) => (/^commit$/i.test(statement) && isDue() ? sql : undefined) }
}

describe('a COMMIT', () => {
  it('that is answered with ROLLBACK has committed nothing, and the transaction is done again', async () => {
    let failures = 0
    // A statement that fails is what turns a COMMIT into a ROLLBACK.
    const { store, names } = await scene(beforeCommits('SELECT 1 / 0', () => failures-- > 0))
    failures = 1
    await store.create(1, { name: 'Fern' })
    expect(await names()).toStrictEqual(['Fern'])
  })

  it('that is answered with ROLLBACK as long as anybody waits is told as a write that was not done', async () => {
    let isBroken = false
    const { database, names } = await scene(beforeCommits('SELECT 1 / 0', () => isBroken))
    isBroken = true
    const write = database.transaction((sql) => sql`INSERT INTO plants (account, id, name) VALUES (1, 1, 'Fern')`)
    await expect(write).rejects.toMatchObject({ status: 503, code: 'database_unavailable' })
    expect(await names()).toStrictEqual([])
  })

  it('outside a transaction, which the server answers with COMMIT and a warning, is not taken for success', async () => {
    let isBroken = false
    const { store, names } = await scene(beforeCommits('ROLLBACK', () => isBroken))
    isBroken = true
    await expect(store.create(1, { name: 'Fern' })).rejects.toMatchObject({ status: 503, code: 'write_unconfirmed' })
    isBroken = false
    await store.create(1, { name: 'Moss' })
    expect(await names()).toStrictEqual(['Moss'])
  })

  it('that the server refuses is undone, and no other transaction of the connection is', async () => {
    const { database, names } = await scene({})
    await database.transaction(
      (sql) => sql`ALTER TABLE plants ADD CONSTRAINT late UNIQUE (name) DEFERRABLE INITIALLY DEFERRED`,
    )
    const add = (id: number, name: string) =>
      database.transaction((sql) => sql`INSERT INTO plants (account, id, name) VALUES (1, ${id}, ${name})`)
    await add(1, 'Fern')
    const ended = await Promise.allSettled(
      Array.from({ length: 30 }, (_, index) => add(index + 2, index % 2 === 0 ? 'Fern' : `Moss ${index}`)),
    )
    expect(ended.map(({ status }) => status)).toStrictEqual(
      ended.map((_, index) => (index % 2 === 0 ? 'rejected' : 'fulfilled')),
    )
    expect(await names()).toHaveLength(16)
  })
})

describe('behind a pooler', () => {
  it.each<[string, Meddling]>([
    ['takes settings and tells another number of the server’s process', { hidesPid: true }],
    ['refuses statement_timeout', { refusedSetting: 'statement_timeout' }],
  ])('that %s, no statement is prepared by name, and each has its time', async (_, meddling) => {
    const { proxy, database, store, names } = await scene(meddling)
    expect(database.isPooled).toBe(true)
    proxy.takeNames()
    await store.create(1, { name: 'Fern' })
    await store.list(1, {}, 10)
    expect(proxy.takeNames()).toStrictEqual([])
    expect(await names()).toStrictEqual(['Fern'])
    const timeoutOf = (work: Promise<readonly { timeout: string }[]>) => work.then(([row]) => row?.timeout)
    const shown = () => "SELECT current_setting('statement_timeout') AS timeout"
    expect(await timeoutOf(database.transaction((sql) => sql.unsafe<{ timeout: string }[]>(shown())))).toBe('5s')
    for await (const timeout of database.snapshot(async function* (sql) {
      yield await timeoutOf(sql.unsafe<{ timeout: string }[]>(shown()))
    })) {
      expect(timeout).toBe('5s')
    }
  })

  it('that loses prepared statements unseen, nothing is lost, and no more of them are made', async () => {
    let begins = 0
    const forget = (statement: string) =>
      /^begin/i.test(statement) && begins++ % 2 === 0 ? 'DEALLOCATE ALL' : undefined
    const { proxy, database, store, names } = await scene({ before: forget })
    const wanted = Array.from({ length: 20 }, (_, index) => `Plant ${index}`)
    for (const name of wanted) await store.create(1, { name })
    expect(await names()).toStrictEqual(wanted)
    expect(database.isPooled).toBe(true)
    proxy.takeNames()
    await store.create(1, { name: 'Fern' })
    expect(proxy.takeNames()).toStrictEqual([])
  })

  it('that lets prepared statements be, they are kept where the address says so', async () => {
    const url = await server.createDatabase()
    const proxy = await proxyForThisTest(url, { hidesPid: true })
    const database = await connectPostgres(`${proxy.url}?prepare=true`)
    onTestFinished(() => database.close())
    proxy.takeNames()
    await database.read((sql) => sql`SELECT 1`)
    expect(proxy.takeNames()).toHaveLength(1)
  })

  it('that pools single statements, the start is refused with what to set', async () => {
    const url = await server.createDatabase()
    const proxy = await proxyForThisTest(url, { hidesPid: true, refusesTransactions: true })
    await expect(connectPostgres(proxy.url)).rejects.toThrow(
      /PgBouncer.*pool_mode = statement.*pool_mode = transaction/,
    )
  })

  it('that refuses another setting, the start is refused with its name', async () => {
    const url = new URL(await server.createDatabase())
    url.searchParams.set('search_path', 'plants')
    const proxy = await proxyForThisTest(url.href, { refusedSetting: 'search_path' })
    await expect(connectPostgres(proxy.url)).rejects.toThrow('unsupported startup parameter: search_path')
  })
})

it('without a pooler statements are prepared, and the server ends what takes too long', async () => {
  const { database, proxy } = await scene({})
  expect(database.isPooled).toBe(false)
  proxy.takeNames()
  const [row] = await database.read(
    (sql) => sql<{ timeout: string }[]>`SELECT current_setting('statement_timeout') AS timeout`,
  )
  expect(row?.timeout).toBe('5s')
  expect(proxy.takeNames()).toHaveLength(1)
})
