import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, expect, it } from 'vitest'
import { startPair, startStandby, tellRecoveries } from '../support/postgres.ts'
import { type SpawnedService, spawnService } from '../support/process.ts'

const rounds = Number(process.env['FAILOVER_ROUNDS'] ?? 2)
const writers = 8
/** Milliseconds in which writes must succeed again, and the longest wait of the test for acknowledged plants. */
const wanted = 10_000
const given = 20_000

const key = `ck_${randomBytes(24).toString('base64url')}`
const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

it(
  'when the primary is killed, replicas continue with the standby: no acknowledged plant is lost or duplicated',
  async () => {
    let { primary, standby } = await startPair()
    closing.push(() => Promise.all([primary.stop(), standby.stop()]))
    const name = new URL(await primary.createDatabase()).pathname
    const recoveries: number[] = []
    let plants = 0
    for (let round = 0; round < rounds; round++) {
      const hosts = `127.0.0.1:${primary.port},127.0.0.1:${standby.port}`
      const start = () =>
        spawnService(process.execPath, ['src/main.ts'], {
          environment: {
            DATABASE_URL: `postgres://postgres@${hosts}${name}?target_session_attrs=read-write`,
            BOOTSTRAP_KEY: key,
          },
        })
      const replicas = await Promise.all([start(), start()])
      const writing = startWriters(replicas, round)
      await writing.progress(50)
      await primary.kill()
      const killed = performance.now()
      const stopped = replicas[0]
      stopped.process.kill('SIGKILL')
      await standby.promote()
      await writing.progress(writers * 3)
      recoveries.push(performance.now() - killed)
      expect(recoveries.at(-1)).toBeLessThan(wanted)
      await stopped.exited
      replicas[0] = await start()
      await writing.progress(50)
      const acknowledged = await writing.stop()
      plants += acknowledged.length
      expect((await namesOf(replicas[1], round)).toSorted()).toStrictEqual(acknowledged.toSorted())
      for (const replica of replicas) replica.process.kill('SIGTERM')
      await Promise.all(replicas.map(({ exited }) => exited))
      await primary.stop()
      primary = standby
      standby = await startStandby(primary)
    }
    tellRecoveries('clients', recoveries, plants)
  },
  60_000 * rounds,
)

/** Starts clients that each add plants one after the other, and repeat unacknowledged requests with the same Idempotency-Key. */
function startWriters(replicas: readonly SpawnedService[], round: number) {
  const acknowledged: string[] = []
  let isStopped = false
  const add = async (name: string, tries: number): Promise<boolean> => {
    const replica = replicas[tries % replicas.length]
    const answer = await fetch(`${replica?.url}/plants`, {
      method: 'POST',
      headers: { ...headers, 'idempotency-key': name },
      body: JSON.stringify({ name }),
    }).catch(() => undefined)
    await answer?.arrayBuffer().catch(() => undefined)
    // A 409 means that the first attempt of the same write is still running.
    if (answer && ![200, 409, 503].includes(answer.status)) throw new Error(`a write was answered ${answer.status}`)
    return answer?.status === 200
  }
  const write = async (writer: number) => {
    for (let count = 0; !isStopped; count++) {
      const name = `${round}-${writer}-${count}`
      for (let tries = writer; !(await add(name, tries)); tries++) await sleep(50)
      acknowledged.push(name)
    }
  }
  const running = Promise.all(Array.from({ length: writers }, (_, writer) => write(writer)))
  let fault: unknown
  running.catch((error: unknown) => {
    fault = error
  })
  return {
    /** Waits until this many more plants are acknowledged. */
    async progress(count: number): Promise<void> {
      const goal = acknowledged.length + count
      const end = performance.now() + given
      while (acknowledged.length < goal) {
        if (fault !== undefined) throw fault
        if (performance.now() > end) throw new Error('the writers do not get on')
        await sleep(10)
      }
    },
    async stop(): Promise<readonly string[]> {
      isStopped = true
      await running
      return acknowledged
    },
  }
}

async function namesOf(replica: SpawnedService, round: number): Promise<readonly string[]> {
  const answer = await fetch(`${replica.url}/plants`, { headers })
  const plants: { readonly name: string }[] = JSON.parse(await answer.text())
  return plants.map(({ name }) => name).filter((name) => name.startsWith(`${round}-`))
}
