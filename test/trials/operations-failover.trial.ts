import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { pgbouncerForThisTest } from '../support/pgbouncer.ts'
import { type PostgresServer, startPair, startStandby } from '../support/postgres.ts'
import { type SpawnedService, spawnService } from '../support/process.ts'

/*
 * Two replicas of the service over a primary and its synchronous standby, with readers and writers, while the primary or the
 * standby fails. Each way to fail has five rounds (ROUNDS). This takes some six minutes. Needs Debian's package pgbouncer.
 */
const rounds = Number(process.env['ROUNDS'] ?? 5)
const writers = 8
const readers = 4
/** Milliseconds: the maximum duration of any reply, and the longest wait of the test for acknowledged plants. */
const longestMs = 5500
const givenMs = 20_000
/** The maximum durations of reads while a standby is frozen, in milliseconds: the p99, and the longest read. */
const maxReadsMs = 100
const longestReadMs = 1000
/** The time for which a standby is frozen: longer than any request waits. */
const frozenMs = 8000

const key = `ck_${randomBytes(24).toString('base64url')}`
const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }

interface Pair {
  readonly primary: PostgresServer
  readonly standby: PostgresServer
}

interface Way {
  readonly name: string
  readonly hasPooler?: boolean
  /** The setting LIMITS; by default requests have no limit. */
  readonly limits?: string
  /** Whether the standby is promoted to primary. */
  readonly isPromoted: boolean
  fail(pair: Pair): Promise<void>
}

const ways: readonly Way[] = [
  { name: 'kill -9 of the primary, and promotion', isPromoted: true, fail: killAndPromote },
  {
    name: 'a switchover',
    isPromoted: true,
    fail: async ({ primary, standby }) => {
      await primary.end()
      await standby.promote()
    },
  },
  { name: 'a standby frozen for 8 s', isPromoted: false, fail: freeze },
  {
    name: 'a standby frozen, and keys with limits',
    limits: 'requests_per_minute=100000',
    isPromoted: false,
    fail: freeze,
  },
  { name: 'a pooler between, kill -9 and promotion', hasPooler: true, isPromoted: true, fail: killAndPromote },
]

async function killAndPromote({ primary, standby }: Pair): Promise<void> {
  const exited = once(primary.process(), 'exit')
  primary.process().kill('SIGKILL')
  await exited
  await standby.promote()
}

async function freeze({ standby }: Pair): Promise<void> {
  const { pid } = standby.process()
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').map(Number)
  const all = [Number(pid), ...children]
  for (const each of all) process.kill(each, 'SIGSTOP')
  await sleep(frozenMs)
  for (const each of all) process.kill(each, 'SIGCONT')
}

interface Tally {
  /** The paths of acknowledged plants, by the name of the plant. */
  readonly acknowledged: Map<string, string>
  /** The number of replies of each kind, and the longest wait for such a reply in milliseconds. */
  readonly answers: Map<string, { count: number; longestMs: number }>
  readonly wrong: string[]
  /** The durations of the reads that began during a failure, in milliseconds. */
  readonly readsMs: number[]
  isFailing: boolean
  longestMs: number
  isOver: boolean
}

function newTally(): Tally {
  const nothing = { longestMs: 0, isFailing: false, isOver: false }
  return { acknowledged: new Map(), answers: new Map(), wrong: [], readsMs: [], ...nothing }
}

/**
 * Sends a request for one plant to a replica, and counts its reply and duration. A 200 must have the plant with this name.
 * @returns the path of the plant after a 200
 */
async function ask(tally: Tally, replica: SpawnedService, path: string, name: string, init: RequestInit = {}) {
  const began = performance.now()
  const method = init.method ?? 'GET'
  const { isFailing } = tally
  try {
    const answer = await fetch(`${replica.url}${path}`, { ...init, headers: { ...headers, ...init.headers } })
    const text = await answer.text()
    const { status } = answer
    const kind = `${method} ${status}`
    const { count, longestMs } = tally.answers.get(kind) ?? { count: 0, longestMs: 0 }
    const tookMs = Math.max(longestMs, Math.round(performance.now() - began))
    tally.answers.set(kind, { count: count + 1, longestMs: tookMs })
    // A 409 means that the same write is still running on the other replica.
    if (status !== 200 && status !== 503 && !(status === 409 && method === 'POST'))
      tally.wrong.push(`${status} ${text}`)
    if (status !== 200) return undefined
    if (text !== JSON.stringify({ name })) tally.wrong.push(`${text} in the place of ${name}`)
    return answer.headers.get('location') ?? path
  } catch (error) {
    tally.wrong.push(`${method} ${path}: ${error}`)
    return undefined
  } finally {
    const tookMs = performance.now() - began
    tally.longestMs = Math.max(tally.longestMs, tookMs)
    if (isFailing && method === 'GET') tally.readsMs.push(tookMs)
  }
}

/** Adds plants one after the other, and repeats unacknowledged requests with the same Idempotency-Key. */
async function write(tally: Tally, replicas: readonly SpawnedService[], prefix: string, number: number): Promise<void> {
  for (let count = 0; !tally.isOver; count++) {
    const name = `${prefix}-${number}-${count}`
    for (let tries = number; ; tries++) {
      const replica = replicas[tries % replicas.length]
      if (!replica) return
      const init = { method: 'POST', headers: { 'idempotency-key': name }, body: JSON.stringify({ name }) }
      const path = await ask(tally, replica, '/plants', name, init)
      if (path !== undefined) {
        tally.acknowledged.set(name, path)
        break
      }
      await sleep(50)
    }
  }
}

/** Reads acknowledged plants, each of which must exist with its name. */
async function read(tally: Tally, replicas: readonly SpawnedService[], number: number): Promise<void> {
  const replica = replicas[number % replicas.length]
  while (!tally.isOver && replica) {
    const [name, path] = [...tally.acknowledged].at(-1 - number) ?? []
    if (name !== undefined && path !== undefined) await ask(tally, replica, path, name)
    await sleep(20)
  }
}

/** Waits until this many more plants are acknowledged. */
async function progress({ acknowledged }: Tally, count: number): Promise<void> {
  const goal = acknowledged.size + count
  const end = performance.now() + givenMs
  while (acknowledged.size < goal) {
    if (performance.now() > end) throw new Error('the writers do not get on')
    await sleep(10)
  }
}

/** Lists all plants. After a 503 it repeats the request, as clients do. */
async function allPlants(url: string): Promise<readonly { readonly name: string }[]> {
  for (const end = performance.now() + givenMs; ; ) {
    const answer = await fetch(url, { headers })
    const text = await answer.text()
    if (answer.status === 200) return JSON.parse(text)
    if (answer.status !== 503 || performance.now() > end)
      throw new Error(`the plants at the end: ${answer.status} ${text}`)
    console.log(`the plants at the end: ${answer.status}, asked for again`)
    await sleep(100)
  }
}

/** Runs one round over a primary and its standby. @returns the counts of replies, and the lost and duplicate plants */
async function round(way: Way, pair: Pair, path: string, prefix: string) {
  const urls = [pair.primary, pair.standby].map((server) => server.url(path))
  const poolers = { pool_mode: 'transaction', ignore_startup_parameters: 'statement_timeout', default_pool_size: '30' }
  const reached = way.hasPooler ? await Promise.all(urls.map((url) => pgbouncerForThisTest(url, poolers))) : urls
  const hosts = reached.map((url) => new URL(url).host).join(',')
  const environment = {
    DATABASE_URL: `postgres://postgres@${hosts}/${path}?target_session_attrs=read-write`,
    ...{ BOOTSTRAP_KEY: key, LOG_LEVEL: 'silent', LIMITS: way.limits ?? 'requests_per_minute=none' },
  }
  const start = () => spawnService(process.execPath, ['src/main.ts'], { environment })
  const replicas = [await start(), await start()]
  const tally = newTally()
  const load = Promise.all([
    ...Array.from({ length: writers }, (_, number) => write(tally, replicas, prefix, number)),
    ...Array.from({ length: readers }, (_, number) => read(tally, replicas, number)),
  ])
  await progress(tally, 100)
  tally.isFailing = true
  await way.fail(pair)
  tally.isFailing = false
  await progress(tally, 100)
  tally.isOver = true
  await load
  const plants = await allPlants(`${replicas[1]?.url}/plants`)
  const counts = new Map<string, number>()
  for (const { name } of plants) counts.set(name, (counts.get(name) ?? 0) + 1)
  for (const replica of replicas) replica.process.kill('SIGTERM')
  await Promise.all(replicas.map(({ exited }) => exited))
  return {
    tally,
    lost: [...tally.acknowledged.keys()].filter((name) => !counts.has(name)),
    doubled: [...counts].filter(([, count]) => count > 1).map(([name]) => name),
  }
}

it.each(ways)(
  '$name: no plant is lost or duplicated, no reply is wrong, and no reply takes longer than 5.5 s',
  async (way) => {
    let pair: Pair = await startPair()
    const servers = [pair.primary, pair.standby]
    try {
      const path = new URL(await pair.primary.createDatabase()).pathname.slice(1)
      const sum = { acknowledged: 0, lost: [] as string[], doubled: [] as string[], wrong: [] as string[] }
      const waits: number[] = []
      const readsMs: number[] = []
      for (let number = 0; number < rounds; number++) {
        const { tally, lost, doubled } = await round(way, pair, path, `round${number}`)
        sum.acknowledged += tally.acknowledged.size
        sum.lost.push(...lost)
        sum.doubled.push(...doubled)
        sum.wrong.push(...tally.wrong)
        waits.push(Math.round(tally.longestMs))
        readsMs.push(...tally.readsMs)
        console.log(`${way.name}, round ${number + 1}: ${JSON.stringify([...tally.answers])}, ${waits.at(-1)} ms`)
        if (!way.isPromoted || number === rounds - 1) continue
        await pair.primary.stop()
        const standby = await startStandby(pair.standby)
        servers.push(standby)
        pair = { primary: pair.standby, standby }
      }
      const { acknowledged, lost, doubled, wrong } = sum
      readsMs.sort((a, b) => a - b)
      const [p99, slowest] = [readsMs[Math.floor(readsMs.length * 0.99)] ?? 0, readsMs.at(-1) ?? 0]
      console.log(
        `${way.name}: ${rounds} rounds, ${acknowledged} acknowledged, ${lost.length} lost, ${doubled.length} doubled, ` +
          `${wrong.length} wrong; longest waits in ms: ${waits.join(' ')}; ` +
          `of ${readsMs.length} reads meanwhile p99 ${Math.round(p99)} ms, the slowest ${Math.round(slowest)} ms`,
      )
      expect({ lost, doubled, wrong }).toEqual({ lost: [], doubled: [], wrong: [] })
      expect(Math.max(...waits)).toBeLessThanOrEqual(longestMs)
      if (way.isPromoted) return
      expect(p99).toBeLessThan(maxReadsMs)
      expect(slowest).toBeLessThan(longestReadMs)
    } finally {
      await Promise.all(servers.map((server) => server.stop()))
    }
  },
  60_000 + 60_000 * rounds,
)
