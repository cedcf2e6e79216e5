import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { median, percentile } from '../../bench/measure.ts'
import { keysKeptFor } from '../../src/plants/policy.ts'
import { openPostgresStores } from '../../src/stores/postgres.ts'
import { openSqliteStores } from '../../src/stores/stores.ts'
import { unixSeconds } from '../../src/time.ts'
import { fillKeys, fillLargeLedger } from '../support/large-ledger.ts'
import { type SpawnedService, startSpawned } from '../support/process.ts'
import { temporaryFolder } from '../support/service.ts'
import { newPostgresDatabase } from '../support/shared-postgres.ts'
import { openSqlOf, type TestSql } from '../support/test-sql.ts'

/*
 * What a ledger of ten million requests costs on both engines, and what expired idempotency keys do. Some ten minutes, and
 * 10 GB of disk. LEDGER_ROWS is how many there are; figures go to stderr.
 */
const rows = Number(process.env['LEDGER_ROWS'] ?? 10_000_000)
/** Of each kind of request, how many are measured. */
const asked = 300
const key = 'ck_the-operator-of-a-large-ledger'
const engines = ['SQLite', 'PostgreSQL']

interface House {
  readonly sql: TestSql
  readonly environment: Readonly<Record<string, string>>
  openStores(): Promise<{ prune(before: number, most: number): Promise<number>; close(): Promise<void> }>
}

/** Makes a database with the first account and its key, until the running test is over. */
async function makeHouse(engine: string): Promise<House> {
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

/** The median seconds of starts that alternate, so that whatever else the machine does touches both. */
async function startsOf(houses: readonly House[]): Promise<readonly number[]> {
  const seconds = houses.map((): number[] => [])
  for (let round = 0; round < 7; round++) {
    for (const [index, { environment }] of houses.entries()) {
      const service = await start(environment)
      seconds[index]?.push(service.seconds)
      await service.close()
    }
  }
  return seconds.map((each) => median(each))
}

const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
const chat = JSON.stringify({ model: 'understudy', messages: [{ role: 'user', content: 'Hello' }] })
let count = 0
const routes: Readonly<Record<string, readonly [string, () => RequestInit]>> = {
  chat: ['/chat/completions', () => ({ method: 'POST', body: chat })],
  'requests of an account': ['/requests', () => ({})],
  'one request': ['/requests/req_00000000000000000000000000000001', () => ({})],
  limits: ['/limits', () => ({})],
  'a keyed plant': [
    '/plants',
    () => ({ method: 'POST', body: '{"name":"Moss"}', headers: { ...headers, 'idempotency-key': `key-${++count}` } }),
  ],
  'a page of plants': ['/plants?limit=20', () => ({})],
}

async function millisecondsOf(url: string, path: string, init: RequestInit = {}): Promise<number> {
  const began = performance.now()
  const reply = await fetch(`${url}${path}`, { headers, ...init })
  await reply.arrayBuffer()
  if (reply.status >= 500) throw new Error(`${path} is answered with ${reply.status}`)
  return performance.now() - began
}

/** How many requests the lines of a report have together. */
async function requestsIn(url: string): Promise<number> {
  const { data }: { data: { requests: number }[] } = JSON.parse(await (await fetch(url, { headers })).text())
  return data.reduce((sum, line) => sum + line.requests, 0)
}

/** The 99th percentiles of services that are asked in turn. */
async function p99sOf(urls: readonly string[], path: string, init: () => RequestInit): Promise<readonly number[]> {
  const times = urls.map((): number[] => [])
  for (let round = 0; round < asked + 20; round++) {
    for (const [index, url] of urls.entries()) {
      const took = await millisecondsOf(url, path, init())
      if (round >= 20) times[index]?.push(took)
    }
  }
  return times.map((each) => percentile(each, 99))
}

/** Looks every 10 ms how long a caller waits until this is stopped, which gives the longest. */
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

describe.each(engines)('a ledger of ten million requests in %s', (engine) => {
  it('(l) slows down neither the start, nor a request, nor what is removed of it; 30 days of it are told within 5 s', async () => {
    const [empty, full] = [await makeHouse(engine), await makeHouse(engine)]
    await fillLargeLedger(full.sql, engine, rows, unixSeconds())
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
      const [before = 0, now = 0] = await p99sOf(urls, path, init)
      figures[`${name}, p99 ms`] = [before, now]
      slower[name] = now / before
    }
    const url = urls[1] ?? ''
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
    process.stderr.write(`${engine}, ${rows} requests: ${JSON.stringify(figures, null, 1)}\n`)
    expect(startOfFull / startOfEmpty).toBeLessThanOrEqual(1.2)
    expect(Object.entries(slower).filter(([, times]) => times > 2)).toEqual([])
    expect(Object.entries(longest).filter(([, seconds]) => seconds > 5)).toEqual([])
  }, 1_800_000)
})

/** A moment within a day, so many days ago. */
function momentOf(daysAgo: number): string {
  return `${new Date((unixSeconds() - daysAgo * 86_400) * 1000).toISOString().slice(0, 11)}08:00:00Z`
}

describe.each(engines)('idempotency keys that have expired, in %s', (engine) => {
  const perSecond = 200
  const secondsLong = 75

  it('(n) are gone within a minute where 200 come each second, and nobody waits for that', async () => {
    const house = await makeHouse(engine)
    const from = unixSeconds() - keysKeptFor
    const old = async (age: number) => {
      const [row] = await house.sql.run<{ count: number }>(
        `SELECT count(*) AS count FROM idempotency_keys WHERE created < ${unixSeconds() - keysKeptFor - age}`,
      )
      return Number(row?.count)
    }
    const write = async (url: string) => {
      const [path, init] = routes['a keyed plant'] ?? ['', () => ({})]
      return millisecondsOf(url, path, init())
    }
    /** The times of keyed writes, so many in each second. */
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
    const service = await start(house.environment)
    onTestFinished(service.close)
    const quiet = await writesFor(service.url, 20)
    // From now on as many expire in each second as come.
    await fillKeys(house.sql, engine, { count: (secondsLong + 200) * perSecond, from: from + 20, perSecond })
    let tooOld = 0
    const beside = await writesFor(service.url, secondsLong, async () => {
      tooOld = Math.max(tooOld, await old(60))
    })
    await fillKeys(house.sql, engine, { count: 1_000_000, from: from - 100_000, perSecond: 1000 })
    const began = performance.now()
    const purging: number[] = []
    while ((await old(1000)) > 0) purging.push(...(await writesFor(service.url, 5)))
    const figures = {
      'a keyed write, p99 and most ms': [percentile(quiet, 99), Math.max(...quiet)],
      'while as many expire': [percentile(beside, 99), Math.max(...beside)],
      'while a million are removed': [percentile(purging, 99), Math.max(...purging)],
      'seconds for a million': (performance.now() - began) / 1000,
      'expired for over a minute, at most': tooOld,
    }
    process.stderr.write(`${engine}: ${JSON.stringify(figures, null, 1)}\n`)
    expect(tooOld).toBe(0)
    expect(percentile(beside, 99)).toBeLessThan(percentile(quiet, 99) + 50)
  }, 900_000)
})
