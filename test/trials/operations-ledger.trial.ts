import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { median, percentile } from '../../bench/measure.ts'
import { keyLifetimeSeconds } from '../../src/plants/policy.ts'
import { openPostgresStores } from '../../src/stores/postgres.ts'
import { openSqliteStores } from '../../src/stores/stores.ts'
import { unixSeconds } from '../../src/time.ts'
import { until } from '../support/eventually.ts'
import { fillKeys, fillLargeLedger, fillPlants, settle } from '../support/large-ledger.ts'
import { type SpawnedService, startSpawned } from '../support/process.ts'
import { temporaryFolder } from '../support/service.ts'
import { newPostgresDatabase } from '../support/shared-postgres.ts'
import { openSqlOf, type TestSql } from '../support/test-sql.ts'
import { p99sOf } from '../support/waits.ts'

/*
 * The cost of ten million requests in the ledger, ten million plants and a million idempotency keys of one account on both
 * engines, and the cost of expired idempotency keys. The trial takes some twenty minutes and 15 GB of disk, and prints figures
 * on stderr. LEDGER_ROWS is the number of requests and of plants.
 */
const rows = Number(process.env['LEDGER_ROWS'] ?? 10_000_000)
const keptKeys = rows / 10
const startRounds = 15
const key = 'ck_the-operator-of-a-large-ledger'
const engines = ['SQLite', 'PostgreSQL']

interface FilledDatabase {
  readonly sql: TestSql
  readonly environment: Readonly<Record<string, string>>
  openStores(): Promise<{ prune(before: number, most: number): Promise<number>; close(): Promise<void> }>
}

/**
 * Makes a database with the first account and its key. At the end of the running test its connection is closed and its folder is
 * removed. A PostgreSQL database stays until the end of the run.
 */
async function makeDatabase(engine: string): Promise<FilledDatabase> {
  const folder = temporaryFolder()
  const url = engine === 'SQLite' ? undefined : await newPostgresDatabase()
  const environment = {
    ...{ DATA_DIR: folder.path, BOOTSTRAP_KEY: key, LEDGER_DAYS: '365', LOG_LEVEL: 'error' },
    ...{ LIMITS: 'tokens_per_day=1000000000000,tokens_per_month=1000000000000,requests_per_minute=none' },
    ...(url === undefined ? {} : { DATABASE_URL: url }),
  }
  writeFileSync(join(folder.path, 'models.json'), JSON.stringify({ models: { understudy: { adapter: 'understudy' } } }))
  const service = await start(environment)
  await service.close()
  const sql = openSqlOf(folder.path, url)
  onTestFinished(async () => {
    await sql.close()
    folder.remove()
  })
  const openStores = async () => {
    const stores =
      url === undefined ? openSqliteStores(join(folder.path, 'conservatory.db')) : await openPostgresStores(url)
    return { prune: stores.ledger.prune.bind(stores.ledger), close: () => stores.close() }
  }
  return { sql, environment, openStores }
}

type Running = SpawnedService & { readonly seconds: number; close(): Promise<void> }

async function start(environment: Readonly<Record<string, string>>): Promise<Running> {
  const began = performance.now()
  const { service, listening } = await startSpawned(process.execPath, ['src/main.ts'], { environment })
  return { ...(await listening), seconds: (performance.now() - began) / 1000, close: service.close }
}

/** The median seconds of a start for each database. Starts alternate, so that other load of the machine affects all databases. */
async function startsOf(databases: readonly FilledDatabase[]): Promise<readonly number[]> {
  const seconds = databases.map((): number[] => [])
  for (let round = 0; round < startRounds; round++) {
    for (const [index, { environment }] of databases.entries()) {
      const service = await start(environment)
      seconds[index]?.push(service.seconds)
      await service.close()
    }
  }
  return seconds.map((each) => median(each))
}

const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
const chat = JSON.stringify({ model: 'understudy', messages: [{ role: 'user', content: 'Hello' }] })
const moss = JSON.stringify({ name: 'Moss', tag: 'fern' })
const card = JSON.stringify({
  spec: 'chara_card_v2',
  spec_version: '2.0',
  data: { name: 'Ivy', description: 'Green.' },
})
let count = 0
/** The id of the plant that was removed last. A removal takes the next id, because a plant can be removed only once. */
let removed = 0
const get = () => ({})
const post = (body: string, more = {}) => ({ method: 'POST', body, headers: { ...headers, ...more } })
/** The measured requests. They are in an order in which each request finds the results of earlier requests. */
const routes: Readonly<Record<string, readonly [() => string, () => RequestInit]>> = {
  chat: [() => '/chat/completions', () => post(chat)],
  'a prompt': [() => '/chat/prompt', () => post(chat)],
  'requests of an account': [() => '/requests', get],
  'one request': [() => '/requests/req_00000000000000000000000000000001', get],
  limits: [() => '/limits', get],
  models: [() => '/models', get],
  keys: [() => '/keys', get],
  audit: [() => '/audit', get],
  'a character put': [() => '/characters/ivy', () => ({ method: 'PUT', body: card })],
  characters: [() => '/characters', get],
  'a plant': [() => '/plants', () => post(moss)],
  'a keyed plant': [() => '/plants', () => post(moss, { 'idempotency-key': `key-${++count}` })],
  'a page of plants': [() => '/plants?limit=20', get],
  'a page of a tag': [() => '/plants?limit=20&tag=fern', get],
  'one plant': [() => `/plants/${1 + (++count % 500)}`, get],
  'a plant removed': [() => `/plants/${++removed}`, () => ({ method: 'DELETE', headers: withoutBody })],
}
const withoutBody = { authorization: headers.authorization }

async function millisecondsOf(url: string, path: string, init: RequestInit = {}): Promise<number> {
  const began = performance.now()
  const reply = await fetch(`${url}${path}`, { headers, ...init })
  await reply.arrayBuffer()
  if (reply.status >= 500) throw new Error(`${path} is answered with ${reply.status}`)
  return performance.now() - began
}

/** The number of requests in all lines of a report. */
async function requestsIn(url: string): Promise<number> {
  const { data }: { data: { requests: number }[] } = JSON.parse(await (await fetch(url, { headers })).text())
  return data.reduce((sum, line) => sum + line.requests, 0)
}

/** The milliseconds until the first byte of a list of all plants. The rest of the list is not read. */
async function firstByteOf(url: string): Promise<number> {
  const leaving = new AbortController()
  const began = performance.now()
  const reply = await fetch(`${url}/plants`, { headers, signal: leaving.signal })
  await reply.body?.getReader().read()
  leaving.abort()
  return performance.now() - began
}

/** Sends requests repeatedly, with pauses of 10 ms. @returns a function that stops the requests, and returns all latencies */
function watching(ask: () => Promise<number>): () => Promise<readonly number[]> {
  let isOver = false
  const times: number[] = []
  const watch = async () => {
    while (!isOver) {
      times.push(await ask())
      await sleep(10)
    }
  }
  const watched = watch()
  return async () => {
    isOver = true
    await watched
    return times
  }
}

describe.each(engines)('ten million requests and plants in %s', (engine) => {
  it('(l) slow down neither the start nor requests nor removals, and a report of 30 days takes less than 5 s', async () => {
    const [empty, full] = [await makeDatabase(engine), await makeDatabase(engine)]
    await fillLargeLedger(full.sql, engine, rows, unixSeconds())
    await fillPlants(full.sql, engine, rows)
    const perSecond = Math.ceil(keptKeys / 40_000)
    await fillKeys(full.sql, engine, { count: keptKeys, from: unixSeconds() - 40_000, perSecond })
    await settle(full.sql, engine)
    const figures: Record<string, unknown> = {}
    const [startOfEmpty = 0, startOfFull = 0] = await startsOf([empty, full])
    figures['start, s'] = [startOfEmpty, startOfFull]
    const services = [await start(empty.environment), await start(full.environment)]
    onTestFinished(async () => {
      for (const service of services) await service.close()
    })
    const urls = services.map(({ url }) => url)
    const slower: Record<string, number> = {}
    for (const [name, [path, init]] of Object.entries(routes)) {
      const [before = 0, now = 0] = await p99sOf(urls, (url) => millisecondsOf(url, path(), init()))
      figures[`${name}, p99 ms`] = [before, now]
      slower[name] = now / before
    }
    const url = urls[1] ?? ''
    figures['the first byte of all plants, ms'] = median([
      await firstByteOf(url),
      await firstByteOf(url),
      await firstByteOf(url),
    ])
    const longest: Record<string, number> = {}
    for (const query of ['', '?by=model', '?by=key', '?by=character', `?from=${momentOf(20)}&to=${momentOf(1)}`]) {
      const stop = watching(() => millisecondsOf(url, '/livez'))
      longest[query] = (await millisecondsOf(url, `/usage${query}`)) / 1000
      figures[`usage${query}, s; livez beside it, at most ms`] = [longest[query], Math.max(0, ...(await stop()))]
    }
    expect(await requestsIn(`${url}/usage`)).toBeGreaterThanOrEqual(rows)
    for (const service of services) await service.close()
    const stores = await full.openStores()
    onTestFinished(() => stores.close())
    const prunes: number[] = []
    for (let step = 0; step < 40; step++) {
      const began = performance.now()
      expect(await stores.prune(unixSeconds() - 15 * 86_400, 500)).toBeGreaterThan(0)
      prunes.push(performance.now() - began)
    }
    figures['a step of pruning, ms, median and most'] = [median(prunes), Math.max(...prunes)]
    process.stderr.write(`${engine}, ${rows} requests and plants: ${JSON.stringify(figures, null, 1)}\n`)
    expect(startOfFull / startOfEmpty).toBeLessThanOrEqual(1.2)
    expect(Object.entries(slower).filter(([, times]) => times > 2)).toEqual([])
    expect(Object.entries(longest).filter(([, seconds]) => seconds > 5)).toEqual([])
  }, 1_800_000)
})

/** 08:00 UTC, this number of days ago. */
function momentOf(daysAgo: number): string {
  return `${new Date((unixSeconds() - daysAgo * 86_400) * 1000).toISOString().slice(0, 11)}08:00:00Z`
}

describe.each(engines)('idempotency keys that have expired, in %s', (engine) => {
  const perSecond = 200
  const blocks = 4
  const blockSeconds = 12

  it('(n) are removed within a minute if 200 expire each second, and the removal delays writes by less than 50 ms', async () => {
    const database = await makeDatabase(engine)
    const old = async (age: number) => {
      const [row] = await database.sql.run<{ count: number }>(
        `SELECT count(*) AS count FROM idempotency_keys WHERE created < ${unixSeconds() - keyLifetimeSeconds - age}`,
      )
      return Number(row?.count)
    }
    const write = (url: string) => millisecondsOf(url, '/plants', post(moss, { 'idempotency-key': `key-${++count}` }))
    /** Sends `perSecond` writes with an Idempotency-Key in each second. @returns the latency of each write */
    const writesFor = async (url: string, seconds: number, eachSecond = async () => {}) => {
      const times: Promise<number>[] = []
      const began = performance.now()
      for (let sent = 0; sent < seconds * perSecond; sent++) {
        times.push(write(url))
        if (sent % perSecond === 0) await eachSecond()
        await sleep(Math.max(0, began + ((sent + 1) * 1000) / perSecond - performance.now()))
      }
      return await Promise.all(times)
    }
    const service = await start(database.environment)
    onTestFinished(service.close)
    await writesFor(service.url, 5)
    const quiet: (readonly number[])[] = []
    const beside: (readonly number[])[] = []
    let tooOld = 0
    const look = async () => {
      tooOld = Math.max(tooOld, await old(60))
    }
    // Blocks with and without expired keys alternate, so that other load of the machine affects both.
    for (let block = 0; block < blocks; block++) {
      quiet.push(await writesFor(service.url, blockSeconds, look))
      // As many keys expire in each second as are added.
      const from = unixSeconds() - keyLifetimeSeconds
      await fillKeys(database.sql, engine, { count: blockSeconds * perSecond, from, perSecond })
      beside.push(await writesFor(service.url, blockSeconds, look))
      await until(async () => (await old(0)) === 0)
    }
    await fillKeys(database.sql, engine, {
      count: 1_000_000,
      from: unixSeconds() - keyLifetimeSeconds - 100_000,
      perSecond: 1000,
    })
    const began = performance.now()
    const purging: number[] = []
    while ((await old(1000)) > 0) purging.push(...(await writesFor(service.url, 5)))
    /** A figure of each block without expired keys, and of the next block, which has expired keys. */
    const inPairs = (find: (times: readonly number[]) => number) =>
      quiet.map((times, block) => [find(times), find(beside[block] ?? [])] as const)
    const p99s = inPairs((times) => percentile(times, 99))
    const longest = inPairs((times) => Math.max(...times))
    const added = (pairs: readonly (readonly [number, number])[]) => pairs.map(([without, beside]) => beside - without)
    const figures = {
      'a keyed write, p99 ms, and while as many expire': p99s,
      'the longest of them': longest,
      'while a million are removed': [percentile(purging, 99), Math.max(...purging)],
      'seconds for a million': (performance.now() - began) / 1000,
      'expired for over a minute, at most': tooOld,
    }
    process.stderr.write(`${engine}: ${JSON.stringify(figures, null, 1)}\n`)
    expect(tooOld).toBe(0)
    expect(median(added(p99s))).toBeLessThan(50)
    expect(median(added(longest))).toBeLessThan(50)
  }, 900_000)
})
