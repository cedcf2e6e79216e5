import { setTimeout as wait } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { type Balancer, balancerForThisTest } from '../support/balancer.ts'
import { readStream } from '../support/chat.ts'
import { until } from '../support/eventually.ts'
import { type SpawnedService, spawnService } from '../support/process.ts'
import { newMigratedDatabase } from '../support/shared-postgres.ts'

const key = 'a-key-of-the-restarted'
const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
const chat = { model: 'understudy', stream: true, messages: [{ role: 'user', content: 'Why are my leaves yellow?' }] }

const replica = (database: string): Promise<SpawnedService> =>
  spawnService(process.execPath, ['src/main.ts'], {
    environment: { DATABASE_URL: database, BOOTSTRAP_KEY: key, DRAIN_SECONDS: '1', LOG_LEVEL: 'silent' },
  })

/** Sends requests until the test is over. @returns a line for each request that failed */
async function caller({ url }: Balancer, number: number, isOver: () => boolean, count: () => void): Promise<string[]> {
  const amiss: string[] = []
  const kinds = [
    () => fetch(`${url}/plants?limit=1`, { headers }),
    () => fetch(`${url}/plants`, { method: 'POST', headers, body: JSON.stringify({ name: `Fern ${number}` }) }),
    () => fetch(`${url}/chat/completions`, { method: 'POST', headers, body: JSON.stringify(chat) }),
  ]
  for (let turn = number; !isOver(); turn++) {
    const kind = turn % kinds.length
    try {
      const answer = await kinds[kind]?.()
      if (answer?.status !== 200) amiss.push(`${kind}: ${answer?.status} ${await answer?.text()}`)
      else if (kind === 2) expect((await readStream(answer)).isDone).toBe(true)
      else await answer.text()
    } catch (error) {
      amiss.push(`${kind}: ${error}`)
    }
    count()
    // With this pause the callers send more than a hundred requests a second. More would only slow down other tests.
    await wait(40)
  }
  return amiss
}

it('(s) a rolling restart of two services behind a balancer fails no request and cuts no stream', async () => {
  const database = await newMigratedDatabase()
  const balancer = await balancerForThisTest()
  const first = await replica(database)
  const services = [first, await replica(database)]
  for (const { url } of services) balancer.add(url)
  await until(() => services.every(({ url }) => balancer.hands(url)))
  let isOver = false
  let asked = 0
  const callers = Array.from({ length: 6 }, (_, number) =>
    caller(
      balancer,
      number,
      () => isOver,
      () => asked++,
    ),
  )
  await until(() => asked > 50)
  for (const old of services) {
    const fresh = await replica(database)
    balancer.add(fresh.url)
    await until(() => balancer.hands(fresh.url))
    old.process.kill('SIGTERM')
    expect(await old.exited).toBe(0)
    const before = asked
    await until(() => asked > before + 50)
  }
  isOver = true
  expect((await Promise.all(callers)).flat()).toEqual([])
  expect(balancer.failures).toEqual([])
  expect(asked).toBeGreaterThan(150)
}, 60_000)
