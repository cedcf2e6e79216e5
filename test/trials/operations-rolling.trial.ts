import { setTimeout as wait } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { readStream } from '../support/chat.ts'
import { until } from '../support/eventually.ts'
import { freePort } from '../support/postgres.ts'
import { type SpawnedService, spawnService } from '../support/process.ts'
import { balancerBefore, caddy, haproxy, type LoadBalancer } from '../support/proxies.ts'
import { newPostgresDatabase } from '../support/shared-postgres.ts'

/*
 * Rolling restarts of three replicas over one PostgreSQL, ten times (ROUNDS), behind HAProxy and behind Caddy with their files in
 * ops/, while clients read, write and stream. This takes some four minutes for each balancer. Needs Debian's packages haproxy and
 * caddy.
 */
const rounds = Number(process.env['ROUNDS'] ?? 10)
const key = 'a-key-of-the-restarted'
const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
const chat = { stream: true, messages: [{ role: 'user', content: 'Why are my leaves yellow?' }] }
/** The DRAIN_SECONDS of the replicas: a second more than HAProxy needs to notice a draining replica. */
const drainSeconds = 3
/** Milliseconds until a balancer has noticed a restarted replica. */
const seenMs = 2500

interface Tally {
  asked: number
  streams: number
  /** A line for each wrong reply. */
  readonly failed: string[]
  /** A line for each stream that broke off. */
  readonly cut: string[]
  isOver: boolean
}

const replica = (database: string, port: number): Promise<SpawnedService> =>
  spawnService(process.execPath, ['src/main.ts'], {
    environment: {
      ...{ DATABASE_URL: database, PORT: String(port), BOOTSTRAP_KEY: key, LOG_LEVEL: 'silent' },
      ...{ DRAIN_SECONDS: String(drainSeconds), LIMITS: 'requests_per_minute=none,tokens_per_day=none' },
    },
  })

/** Reads and writes plants repeatedly on keep-alive connections. */
async function usePlants(url: string, number: number, tally: Tally): Promise<void> {
  for (let turn = number; !tally.isOver; turn++) {
    const isRead = turn % 2 === 0
    const name = `Fern ${number}, ${turn}`
    const asked = isRead ? {} : { method: 'POST', body: JSON.stringify({ name }) }
    try {
      const answer = await fetch(`${url}/plants${isRead ? '?limit=3' : ''}`, { headers, ...asked })
      const text = await answer.text()
      const isRight = answer.status === 200 && (isRead ? text.startsWith('[') : text.includes(name))
      if (!isRight) tally.failed.push(`${isRead ? 'read' : 'write'}: ${answer.status} ${text}`)
    } catch (error) {
      tally.failed.push(`${isRead ? 'read' : 'write'}: ${error} ${error instanceof Error ? error.cause : ''}`)
    }
    tally.asked += 1
    await wait(15)
  }
}

/** Requests streams one after the other. @param model decides whether the streams are quick or slow */
async function useStreams(url: string, model: string, tally: Tally): Promise<void> {
  while (!tally.isOver) {
    try {
      const body = JSON.stringify({ ...chat, model })
      const answer = await fetch(`${url}/chat/completions`, { method: 'POST', headers, body })
      if (answer.status !== 200) tally.failed.push(`stream: ${answer.status} ${await answer.text()}`)
      else {
        const streamed = await readStream(answer)
        if (!streamed.isDone || streamed.errors.length > 0)
          tally.cut.push(`${model}: ${JSON.stringify(streamed.errors)}`)
        tally.streams += 1
      }
    } catch (error) {
      tally.cut.push(`${model}: ${error} ${error instanceof Error ? error.cause : ''}`)
    }
    tally.asked += 1
    await wait(15)
  }
}

it.each<LoadBalancer>([haproxy, caddy])(
  'a rolling restart of three replicas behind $name fails no request and cuts no stream',
  async (proxy) => {
    const database = await newPostgresDatabase()
    const ports = [await freePort(), await freePort(), await freePort()]
    const services: SpawnedService[] = []
    for (const port of ports) services.push(await replica(database, port))
    const url = await balancerBefore(proxy, ports)
    const tally: Tally = { asked: 0, streams: 0, failed: [], cut: [], isOver: false }
    const models = ['understudy', 'understudy', 'understudy/slow', 'understudy/slow']
    const load = Promise.all([
      ...Array.from({ length: 6 }, (_, number) => usePlants(url, number, tally)),
      ...models.map((model) => useStreams(url, model, tally)),
    ])
    await until(() => tally.asked > 100)
    for (let round = 0; round < rounds; round++) {
      for (const [index, port] of ports.entries()) {
        const old = services[index]
        old?.process.kill('SIGTERM')
        expect(await old?.exited).toBe(0)
        services[index] = await replica(database, port)
        await wait(seenMs)
      }
    }
    tally.isOver = true
    await load
    const { asked, streams, failed, cut } = tally
    console.log(
      `${proxy.name}: ${rounds} rounds, ${asked} requests, ${failed.length} failed; ${streams} streams, ${cut.length} cut`,
    )
    expect({ failed, cut }).toEqual({ failed: [], cut: [] })
    expect(streams).toBeGreaterThan(10 * rounds)
    expect(asked).toBeGreaterThan(100 * rounds)
  },
  60_000 + 60_000 * rounds,
)
