import { spawn } from 'node:child_process'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { compileCache } from '../support/command.ts'
import { pictureCases } from '../support/pictures.ts'
import { folderForThisTest, preset, start } from '../support/preset-service.ts'
import { projectFolder, type SpawnedService } from '../support/process.ts'
import { settingsOf } from '../support/test-database.ts'

/*
 * Changes of plants under kill -9, and an account with 100,000 plants. Over PostgreSQL: npx vitest run --config
 * vitest.trials.config.ts plants with the set-up of vitest.postgres.config.ts, or DATABASE_URL of an empty database.
 */

const rounds = 6

interface Sent {
  readonly method: string
  readonly path: string
  readonly json?: unknown
  readonly bytes?: Buffer
  readonly key?: string
}

/** Sends a request. @returns undefined if the service was killed before it answered */
async function send(url: string, { method, path, json, bytes, key }: Sent): Promise<Response | undefined> {
  const reply = await fetch(url + path, {
    method,
    headers: {
      authorization: `Bearer ${preset}`,
      ...(json === undefined ? {} : { 'content-type': 'application/json' }),
      ...(bytes === undefined ? {} : { 'content-type': 'image/png' }),
      ...(key === undefined ? {} : { 'idempotency-key': key }),
    },
    body: json === undefined ? ((bytes && new Uint8Array(bytes)) ?? null) : JSON.stringify(json),
  }).catch(() => undefined)
  const text = await reply
    ?.clone()
    .arrayBuffer()
    .catch(() => undefined)
  if (!reply || !text) return undefined
  if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${await reply.text()}`)
  return reply
}

async function sent<T>(url: string, what: Sent): Promise<T> {
  const reply = await send(url, what)
  if (!reply) throw new Error(`${what.method} ${what.path} got no answer`)
  return JSON.parse(await reply.text())
}

interface Plant {
  readonly id: number
  readonly name: string
  readonly details?: { readonly notes?: string }
}

const listOf = (url: string) => sent<readonly Plant[]>(url, { method: 'GET', path: '/plants?include=id' })

/** One client that changes plants until the service is killed, and what must hold afterwards. */
interface Writer {
  /** Writes once. @returns whether the service has answered */
  write(url: string): Promise<boolean>
  /** Checks what the service has, after a kill; may repeat the request that the kill cut off. */
  check(url: string): Promise<void>
  readonly acknowledged: () => number
}

function patcher(id: number): Writer {
  let acknowledged = 0
  let tried = 0
  return {
    async write(url) {
      tried++
      if (!(await send(url, { method: 'PATCH', path: `/plants/${id}`, json: { notes: `${tried}` } }))) return false
      acknowledged = tried
      return true
    },
    async check(url) {
      const plant = await sent<Plant & { readonly notes?: string }>(url, {
        method: 'GET',
        path: `/plants/${id}?include=details`,
      })
      const notes = Number(/"notes":"(\d+)"/.exec(JSON.stringify(plant))?.[1] ?? 0)
      expect([acknowledged, tried]).toContain(notes)
      acknowledged = notes
    },
    acknowledged: () => acknowledged,
  }
}

/** Sends batches of 100 plants with an idempotency key. After a kill, the batch that it cut off is there whole or not at all. */
function batcher(index: number): Writer {
  let acknowledged = 0
  const batchOf = (number: number): Sent => ({
    method: 'POST',
    path: '/plants/batch',
    key: `batch ${index} ${number}`,
    json: Array.from({ length: 100 }, (_none, row) => ({ name: `b${index}-${number}-${row}`, notes: 'n' })),
  })
  return {
    async write(url) {
      if (!(await send(url, batchOf(acknowledged)))) return false
      acknowledged++
      return true
    },
    async check(url) {
      const countsOf = async () => {
        const counts = new Map<string, number>()
        for (const { name } of await listOf(url)) {
          const batch = /^(b\d+-\d+)-/.exec(name)?.[1]
          if (batch?.startsWith(`b${index}-`)) counts.set(batch, (counts.get(batch) ?? 0) + 1)
        }
        return counts
      }
      const before = await countsOf()
      expect([...new Set(before.values())].filter((count) => count !== 100)).toEqual([])
      expect([acknowledged, acknowledged + 1]).toContain(before.size)
      await send(url, batchOf(acknowledged))
      acknowledged++
      const after = await countsOf()
      expect([...after.values()]).toEqual(Array.from({ length: acknowledged }, () => 100))
    },
    acknowledged: () => acknowledged,
  }
}

/** Logs 40 events of several plants at once, with an idempotency key. */
function logger(index: number, plants: readonly number[]): Writer {
  let acknowledged = 0
  const kind = `kind${index}`
  const eventsOf = (number: number): Sent => ({
    method: 'POST',
    path: '/events',
    key: `events ${index} ${number}`,
    json: Array.from({ length: 40 }, (_none, row) => ({ plant: plants[row % plants.length], kind, note: `${number}` })),
  })
  const countOf = async (url: string) => {
    let count = 0
    for (const plant of plants) {
      for (let path: string | undefined = `/plants/${plant}/events?kind=${kind}&limit=1000`; path !== undefined; ) {
        const reply: Response | undefined = await send(url, { method: 'GET', path })
        const { data }: { data: readonly unknown[] } = JSON.parse((await reply?.text()) ?? '{}')
        count += data.length
        path = /<([^>]+)>/.exec(reply?.headers.get('link') ?? '')?.[1]
      }
    }
    return count
  }
  return {
    async write(url) {
      if (!(await send(url, eventsOf(acknowledged)))) return false
      acknowledged++
      return true
    },
    async check(url) {
      expect([acknowledged * 40, acknowledged * 40 + 40]).toContain(await countOf(url))
      await send(url, eventsOf(acknowledged))
      acknowledged++
      expect(await countOf(url)).toBe(acknowledged * 40)
    },
    acknowledged: () => acknowledged,
  }
}

/** Replaces the photo of a plant by pictures of different sizes. */
function photographer(id: number): Writer {
  const photoOf = (number: number) => (number % 2 === 0 ? pictureCases.PNG : pictureCases.JPEG).bare
  let acknowledged = 0
  let tried = 0
  return {
    async write(url) {
      tried++
      const bytes = photoOf(tried)
      if (!(await send(url, { method: 'PUT', path: `/plants/${id}/photo`, bytes }))) return false
      acknowledged = tried
      return true
    },
    async check(url) {
      const reply = await fetch(`${url}/plants/${id}/photo`, { headers: { authorization: `Bearer ${preset}` } })
      if (acknowledged === 0 && reply.status === 404) return
      const bytes = Buffer.from(await reply.arrayBuffer())
      const possible = [acknowledged, tried].map(photoOf)
      expect(possible.some((photo) => photo.equals(bytes))).toBe(true)
      expect(reply.headers.get('content-length')).toBe(`${bytes.length}`)
    },
    acknowledged: () => acknowledged,
  }
}

async function kill(service: SpawnedService): Promise<void> {
  service.process.kill('SIGKILL')
  await service.exited
}

it('keeps each acknowledged change of plants, photos and events over kill -9, and no half of a batch', async () => {
  const folder = folderForThisTest()
  let service = await start(folder)
  const plants: number[] = []
  for (let count = 0; count < 12; count++) {
    const json = { name: `plant ${count}` }
    plants.push((await sent<Plant>(service.url, { method: 'POST', path: '/plants?include=id', json })).id)
  }
  const writers = [
    ...plants.slice(0, 8).map(patcher),
    ...[0, 1].map(batcher),
    ...[0, 1].map((index) => logger(index, plants.slice(8, 10))),
    ...plants.slice(10).map(photographer),
  ]
  for (let round = 0; round < rounds; round++) {
    const { url } = service
    const writing = writers.map(async (writer) => {
      while (await writer.write(url));
    })
    await wait(200 + Math.random() * 400)
    await kill(service)
    await Promise.all(writing)
    service = await start(folder)
    for (const writer of writers) await writer.check(service.url)
  }
  console.log('acknowledged', writers.map((writer) => writer.acknowledged()).join(' '))
  expect(Math.min(...writers.map((writer) => writer.acknowledged()))).toBeGreaterThan(rounds)
}, 300_000)

/** User and system time of a process so far, in milliseconds. The kernel counts in steps of 10 ms. */
function cpuMs({ process: { pid } }: SpawnedService): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * 10
}

/** The most memory that a process had at a time, in megabytes, once it has ended. */
async function peakMegabytes(args: readonly string[], dataDirectory: string): Promise<number> {
  const environment = { ...(await settingsOf(dataDirectory)), ...compileCache, DATA_DIR: dataDirectory }
  const child = spawn(process.execPath, ['src/main.ts', ...args], {
    cwd: projectFolder,
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], ...environment },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  child.stdout.resume()
  const exited = new Promise<number | null>((done) => child.once('exit', done))
  let peak = 0
  let code: number | null | undefined
  void exited.then((ended) => {
    code = ended
  })
  while (code === undefined) {
    const path = `/proc/${child.pid}/status`
    const text = existsSync(path) ? readFileSync(path, 'utf8') : ''
    peak = Math.max(peak, Number(/VmHWM:\s+(\d+)/.exec(text)?.[1] ?? 0) / 1000)
    await wait(20)
  }
  expect(code).toBe(0)
  return peak
}

describe('100,000 plants with five events each', () => {
  const count = 100_000

  /** A service with the plants: the half has a rule of care that is due within a year. */
  async function startLarge() {
    const folder = folderForThisTest()
    const service = await start(folder)
    for (let from = 1; from <= count; from += 1000) {
      const json = Array.from({ length: 1000 }, (_none, index) => {
        const id = from + index
        const place = `shelf ${id % 100}`
        return { id, name: `Plant ${(id * 7919) % count}`, tag: `tag ${id % 50}`, species: `S ${id % 997}`, place }
      })
      await send(service.url, { method: 'POST', path: '/plants/batch', json })
      for (let part = 0; part < 5; part++) {
        const events = json.map(({ id }) => ({ plant: id, kind: 'water', at: 1_700_000_000 + part * 86_400 }))
        await send(service.url, { method: 'POST', path: '/events', json: events })
      }
    }
    return { folder, service }
  }

  it('answers a page in less than 30 ms of CPU, and writes them out within 40 MB', { timeout: 900_000 }, async () => {
    const { folder, service } = await startLarge()
    for (let id = 1; id <= 2000; id++) {
      const json = { every_days: 1 + (id % 300) }
      await send(service.url, { method: 'PUT', path: `/plants/${id * 50}/care/water`, json })
    }
    const figures: Record<string, number> = {}
    const pages = [
      ...['/plants?limit=100', '/plants?limit=100&tag=tag%207', '/plants?limit=100&place=shelf%207'],
      ...['/plants?limit=100&q=plant%2099', '/plants?limit=100&q=found%20nowhere', '/plants?limit=100&q=s%20996'],
      ...['id', '-id', 'name', '-name', 'updated', '-updated'].map((sort) => `/plants?limit=100&sort=${sort}`),
      ...['true', 'false'].map((archived) => `/plants?limit=100&archived=${archived}`),
      '/plants?limit=100&sort=name&q=plant&place=shelf%207&archived=false',
      ...['/plants?limit=100&include=id,details,care,due', '/plants/77777/events?limit=100'],
      ...['/care/due?within=0d&limit=100', '/care/due?within=366d&limit=100'],
    ]
    const authorization = `Bearer ${preset}`
    for (const path of pages) {
      await send(service.url, { method: 'GET', path })
      const before = cpuMs(service)
      for (let time = 0; time < 20; time++) {
        // Each request asks a little differently, so that no cached page answers.
        const reply = await fetch(`${service.url}${path}&x=${time}`, { headers: { authorization } })
        expect(reply.status).toBe(200)
        await reply.arrayBuffer()
      }
      figures[path] = (cpuMs(service) - before) / 20
    }
    console.table(figures)
    const memory: Record<string, number> = {}
    const empty = folderForThisTest()
    await kill(await start(empty))
    await kill(service)
    for (const args of [
      ['plants', 'export'],
      ['accounts', 'export'],
    ]) {
      const command = [...args, 'owner']
      const without = await peakMegabytes(command, empty)
      memory[args.join(' ')] = (await peakMegabytes(command, folder)) - without
    }
    console.table(memory)
    console.log(
      `database: ${existsSync(join(folder, 'conservatory.db')) ? statSync(join(folder, 'conservatory.db')).size / 1e6 : 0} MB`,
    )
    expect(Object.entries(figures).filter(([, ms]) => ms > 30)).toEqual([])
    expect(Object.entries(memory).filter(([, megabytes]) => megabytes > 40)).toEqual([])
  })
})
