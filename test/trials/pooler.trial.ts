import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import postgres, { type Sql } from 'postgres'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { PostgresPlantStore } from '../../src/plants/postgres.ts'
import { connectPostgres } from '../../src/storage/postgres/connect.ts'
import { compileCache, conservatory } from '../support/command.ts'
import { pgbouncerForThisTest } from '../support/pgbouncer.ts'
import { type PostgresServer, startPostgres } from '../support/postgres.ts'
import { preset } from '../support/preset-service.ts'
import { spawnService } from '../support/process.ts'
import { temporaryFolder } from '../support/service.ts'
import { openStoresOf } from '../support/test-database.ts'

/*
 * Replicas and commands behind PgBouncer. In the first trial, eight writers use two replicas for 30 seconds, while a process of
 * PostgreSQL is killed every 7 seconds. Needs Debian's package pgbouncer.
 */

const writingTime = 30_000
const killEvery = 7000
const writers = 8
/** Limits that are too high to be reached: requests are counted but never refused. */
const limits = 'requests_per_minute=1000000,chat_at_once=1000,tokens_per_day=1000000000'

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

it.each<[string, Record<string, string>, string]>([
  ['transaction', { ignore_startup_parameters: 'statement_timeout' }, ''],
  ['transaction', {}, ''],
  ['session', { default_pool_size: '40' }, ''],
  ['session', { default_pool_size: '40' }, '?prepare=true'],
])('pool_mode = %s, %j, query "%s": no acknowledged plant is lost or duplicated', async (poolMode, more, query) => {
  const databaseUrl = await server.createDatabase()
  const url = (await pgbouncerForThisTest(databaseUrl, { pool_mode: poolMode, ...more })) + query
  const direct = postgres(databaseUrl, { max: 1, onnotice: () => {}, idle_timeout: 1 })
  onTestFinished(() => direct.end())
  const replicas = [await startReplica(url), await startReplica(url)]
  const end = performance.now() + writingTime
  const tallies = Array.from({ length: writers }, (_, index) => ({
    url: replicas[index % replicas.length]?.url ?? '',
    prefix: `Writer ${index}`,
    isCareful: index % 2 === 0,
    acknowledged: [] as string[],
    answers: new Map<number, number>(),
  }))
  const [kills, chats] = await Promise.all([
    killNowAndThen(direct, end),
    Promise.all(replicas.map((replica) => chatUntil(end, replica.url))),
    ...tallies.map((tally) => writeUntil(end, tally)),
    ...replicas.map((replica) => readUntil(end, replica.url)),
  ])
  const rows = await asked(
    direct,
    (sql) => sql<{ name: string; count: number }[]>`
    SELECT name, count(*)::int AS count FROM plants GROUP BY name`,
  )
  const there = new Map(rows.map(({ name, count }) => [name, count]))
  const acknowledged = tallies.flatMap((tally) => tally.acknowledged)
  const answers = new Map<number, number>()
  for (const tally of tallies) {
    for (const [status, count] of tally.answers) answers.set(status, (answers.get(status) ?? 0) + count)
  }
  const lost = acknowledged.filter((name) => !there.has(name))
  const doubled = [...there].filter(([, count]) => count > 1)
  const answered = chats.flat()
  const onRecord = await asked(
    direct,
    (sql) => sql<{ id: string }[]>`SELECT id FROM requests WHERE state = 'stop' AND prompt_tokens > 0`,
  )
  const recorded = new Set(onRecord.map(({ id }) => id))
  const [spending] = await asked(
    direct,
    (sql) => sql<{ counted: number; spent: number }[]>`
      SELECT (SELECT sum(prompt_tokens + completion_tokens) FROM requests WHERE state <> 'running')::int AS counted,
        (SELECT sum(tokens) FROM spend WHERE subject LIKE 'key:%')::int AS spent`,
  )
  const servers = await serversBehind(url)
  console.log(
    `pool_mode = ${poolMode}: ${acknowledged.length} acknowledged, ${lost.length} lost, ${doubled.length} doubled; ` +
      `${answered.length} chats, ${answered.filter((id) => !recorded.has(id)).length} not on record; ` +
      `answers ${JSON.stringify([...answers])}, ${kills} kills, ${servers} servers behind one connection`,
  )
  expect({ lost, doubled }).toStrictEqual({ lost: [], doubled: [] })
  expect(answered.filter((id) => !recorded.has(id))).toStrictEqual([])
  expect(spending?.spent).toBe(spending?.counted)
  expect(acknowledged.length).toBeGreaterThan(100)
  expect(answered.length).toBeGreaterThan(10)
  expect(kills).toBeGreaterThan(1)
  expect([...answers.keys()].filter((status) => ![200, 503].includes(status))).toStrictEqual([])
  expect(servers > 1).toBe(poolMode === 'transaction')
})

it('pool_mode = statement: the service does not start, and its error names this mode', async () => {
  const url = await pgbouncerForThisTest(await server.createDatabase(), { pool_mode: 'statement' })
  const folder = temporaryFolder()
  onTestFinished(folder.remove)
  const { code, stderr } = await conservatory(['serve'], { DATA_DIR: folder.path, DATABASE_URL: url, PORT: '0' })
  expect(stderr).toMatch(/PgBouncer.*pool_mode = statement/)
  expect(code).toBe(1)
})

it.each(['transaction', 'session'])(
  'pool_mode = %s: conservatory migrate moves a database from SQLite to PostgreSQL and back',
  async (poolMode) => {
    const databaseUrl = await server.createDatabase()
    const url = await pgbouncerForThisTest(databaseUrl, { pool_mode: poolMode, default_pool_size: '40' })
    const folder = temporaryFolder()
    onTestFinished(folder.remove)
    const settings = { DATA_DIR: folder.path, DATABASE_URL: '' }
    const file = (name: string) => `sqlite:${folder.path}/${name}.db`
    const { access, close } = await openStoresOf(folder.path)
    await access.createAccount('ann')
    await close()
    for (const [from, to] of [
      [file('conservatory'), url],
      [url, file('back')],
    ] as const) {
      const { code, stderr } = await conservatory(['migrate', '--from', from, '--to', to], settings)
      expect(code, stderr).toBe(0)
    }
  },
)

it('prints the throughput without prepared statements as a share of the throughput with prepared statements', async () => {
  const databaseUrl = await server.createDatabase()
  const ways = await Promise.all(
    ['true', 'false'].map(async (prepare) => {
      const database = await connectPostgres(`${databaseUrl}?prepare=${prepare}`)
      onTestFinished(() => database.close())
      return { database, store: new PostgresPlantStore(database), reads: 0, writes: 0 }
    }),
  )
  await ways[0]?.database.transaction((sql) => sql`INSERT INTO accounts (id, name, created) VALUES (1, 'ann', 0)`)
  // The measurements alternate, because other load of the machine varies.
  for (let round = 0; round < 10; round++) {
    for (const way of ways) {
      way.reads += await doneIn(500, () => way.store.find(1, 1))
      way.writes += await doneIn(500, () => way.store.create(1, { name: 'Fern' }))
    }
  }
  const [prepared, unprepared] = ways
  if (!prepared || !unprepared) throw new Error('there are two ways')
  const share = (what: 'reads' | 'writes') =>
    `${Math.round((100 * unprepared[what]) / prepared[what])} % of the ${what}`
  console.log(`without prepared statements: ${share('reads')}, ${share('writes')}`)
})

/** Counts how often an action ends within some milliseconds, with eight actions in parallel. */
async function doneIn(milliseconds: number, work: () => Promise<unknown>): Promise<number> {
  const end = performance.now() + milliseconds
  let done = 0
  const one = async () => {
    for (; performance.now() < end; done++) await work()
  }
  await Promise.all(Array.from({ length: 8 }, one))
  return done
}

function startReplica(url: string) {
  return spawnService(process.execPath, ['src/main.ts'], {
    environment: { ...compileCache, DATABASE_URL: url, BOOTSTRAP_KEY: preset, LOG_LEVEL: 'silent', LIMITS: limits },
  })
}

interface Tally {
  readonly url: string
  readonly prefix: string
  /** Whether the writer sends an Idempotency-Key and repeats unacknowledged requests. */
  readonly isCareful: boolean
  readonly acknowledged: string[]
  readonly answers: Map<number, number>
}

async function writeUntil(end: number, { url, prefix, isCareful, acknowledged, answers }: Tally): Promise<void> {
  for (let number = 0; performance.now() < end; number++) {
    const name = `${prefix}, plant ${number}`
    const headers = {
      authorization: `Bearer ${preset}`,
      'content-type': 'application/json',
      ...(isCareful && { 'idempotency-key': randomUUID() }),
    }
    let status = 0
    do {
      const response = await fetch(`${url}/plants`, { method: 'POST', headers, body: JSON.stringify({ name }) })
      await response.text()
      status = response.status
      answers.set(status, (answers.get(status) ?? 0) + 1)
      if (status !== 200) await wait(100)
    } while (isCareful && status === 503 && performance.now() < end + 10_000)
    if (status === 200) acknowledged.push(name)
  }
}

async function readUntil(end: number, url: string): Promise<void> {
  while (performance.now() < end) {
    const response = await fetch(`${url}/plants?limit=20`, { headers: { authorization: `Bearer ${preset}` } })
    await response.text()
    await wait(50)
  }
}

/** Sends chat requests until a time. @returns the ids of the requests with a complete reply */
async function chatUntil(end: number, url: string): Promise<readonly string[]> {
  const answered: string[] = []
  const headers = { authorization: `Bearer ${preset}`, 'content-type': 'application/json' }
  const body = JSON.stringify({ model: 'understudy', messages: [{ role: 'user', content: 'Hello' }] })
  while (performance.now() < end) {
    const response = await fetch(`${url}/chat/completions`, { method: 'POST', headers, body })
    await response.text()
    if (response.status === 200) answered.push(response.headers.get('x-request-id') ?? '')
    else expect(response.status).toBe(503)
    await wait(50)
  }
  return answered
}

/**
 * Kills a backend process of PostgreSQL with SIGKILL every few seconds. Each time the whole server crashes and restarts.
 * @returns the number of kills
 */
async function killNowAndThen(direct: Sql, end: number): Promise<number> {
  let kills = 0
  while (performance.now() < end - killEvery) {
    await wait(killEvery)
    const [row] = await asked(
      direct,
      (sql) => sql<{ pid: number }[]>`
      SELECT pid FROM pg_stat_activity WHERE application_name = 'conservatory' AND datname = current_database()
      ORDER BY random() LIMIT 1`,
    )
    if (!row) continue
    process.kill(row.pid, 'SIGKILL')
    kills++
  }
  return kills
}

/** Runs a query, and retries a failed query for some ten seconds, because the server may be restarting. */
async function asked<T>(direct: Sql, question: (sql: Sql) => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await question(direct)
    } catch (error) {
      if (tries >= 50) throw error
      await wait(200)
    }
  }
}

/** The number of different backend processes that answer the queries of one connection to the pooler. */
async function serversBehind(url: string): Promise<number> {
  const others = postgres(url, { max: 4, prepare: false, fetch_types: false, onnotice: () => {} })
  // These parallel queries make the pooler open several connections to the server.
  await Promise.all(Array.from({ length: 4 }, () => others`SELECT pg_sleep(0.2)`))
  const one = postgres(url, { max: 1, prepare: false, fetch_types: false, onnotice: () => {} })
  const pids = new Set<number>()
  for (let asking = 0; asking < 30; asking++) {
    const [row] = await one<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`
    if (row) pids.add(row.pid)
  }
  await Promise.all([others.end(), one.end()])
  return pids.size
}
