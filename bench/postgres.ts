import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import postgres from 'postgres'
import { type PostgresServer, startPostgres } from '../test/support/postgres.ts'
import { wrk } from './load.ts'
import { atLeast, atMost, type Figure, inTurn, round2, seconds } from './measure.ts'
import { cpuSeconds, type Measured, startService } from './processes.ts'

/*
 * Plants in PostgreSQL, which waits for the disk at each commit.
 * First, `POST /plants` against pgbench, which does the same insert in its own transaction, from as many connections, on the
 * same server. Target: at least 0.5 of pgbench's rate.
 * Second, the CPU time of a request with two replicas under load, against one replica alone, with 64 connections to each
 * replica. Target: at most 1.1 times, which shows that replicas scale if there are enough cores. For comparison, a replica is
 * measured together with a service that has its own database: this shows how much of the difference is due to the machine, with
 * five busy processes on two cores.
 */

const run = promisify(execFile)
const connections = 64
/** Seconds of warm-up. On a slow machine Node compiles for up to 8 s, and requests take more CPU time meanwhile. */
const warmUp = 8
const plant = { name: 'Monstera', tag: 'aroid' }
const body = JSON.stringify(plant)

/** Compares writes with pgbench's, and two replicas with one. */
export async function benchPostgres(): Promise<readonly Figure[]> {
  const server = await startPostgres({ fsync: 'on' })
  const services: Measured[] = []
  try {
    const url = await server.createDatabase()
    const start = async (name: string, database = url) => {
      const service = await startService(name, { DATABASE_URL: database })
      services.push(service)
      return service
    }
    // The replicas start one after the other, because the first replica makes the account and its key.
    const one = await start('one replica')
    const two = await start('the other replica')
    const stranger = await start('a stranger', await server.createDatabase())
    const pgbench = await preparePgbench(server, url)
    const add = ({ url: address }: Measured, duration?: number) => wrk(`${address}/plants`, { body }, duration)
    const list = ({ url: address }: Measured, duration?: number) => wrk(`${address}/plants?limit=100`, {}, duration)
    for (const service of [one, two, stranger]) {
      await add(service, warmUp)
      await list(service, warmUp)
    }

    const writes = await inTurn({ ours: () => add(one), pgbench: () => pgbench() })
    const figures = [atLeast('postgres, POST /plants, to pgbench', 0.5, writes.ratio('ours', 'pgbench'))]
    console.table([
      {
        'POST /plants': Math.round(writes.middle('ours')),
        'pgbench, inserts/s': Math.round(writes.middle('pgbench')),
        ratio: round2(writes.ratio('ours', 'pgbench')),
      },
    ])
    for (const [what, drive] of [['GET', list] as const, ['POST', add] as const]) {
      const cost = await inTurn({
        one: async () => ((await costOf([one], drive)) + (await costOf([two], drive))) / 2,
        two: () => costOf([one, two], drive),
        beside: async () => (await Promise.all([costOf([one], drive), drive(stranger)]))[0],
      })
      console.table([
        {
          what,
          'each alone, CPU µs/request': Math.round(cost.middle('one') * 1e6),
          'both, CPU µs/request': Math.round(cost.middle('two') * 1e6),
          ratio: round2(cost.ratio('two', 'one')),
          'one beside a stranger, to alone': round2(cost.ratio('beside', 'one')),
        },
      ])
      figures.push(atMost(`postgres, CPU of a ${what}, two replicas to one`, 1.1, cost.ratio('two', 'one')))
    }
    return figures
  } finally {
    for (const service of services) await service.stop()
    await server.stop()
  }
}

/** CPU seconds per request of the services, while all of them are under load at the same time. */
async function costOf(services: readonly Measured[], drive: (service: Measured) => Promise<number>): Promise<number> {
  const used = () => services.reduce((sum, { pid }) => sum + cpuSeconds(pid), 0)
  const before = used()
  const rates = await Promise.all(services.map((service) => drive(service)))
  return (used() - before) / (rates.reduce((sum, rate) => sum + rate, 0) * seconds)
}

/** Makes an account for pgbench's plants. @returns a function that adds plants and returns plants per second */
async function preparePgbench(server: PostgresServer, url: string): Promise<() => Promise<number>> {
  const account = 1_000_000
  const sql = postgres(url, { max: 1 })
  await sql`INSERT INTO accounts (id, name, created) VALUES (${account}, 'pgbench', 0)`
  await sql.end()
  let round = 0
  return async () => {
    const folder = mkdtempSync(join(tmpdir(), 'conservatory-pgbench-'))
    const file = join(folder, 'insert.sql')
    // The ids ascend, as in the service. No other client and no other round uses these ids.
    const script = [
      '\\set count :count + 1',
      `\\set id (${++round} * 1000 + :client_id) * 1000000 + :count`,
      `INSERT INTO plants (account, id, name, tag) VALUES (${account}, :id, '${plant.name}', '${plant.tag}');`,
    ]
    writeFileSync(file, script.join('\n'))
    const target = ['-h', '127.0.0.1', '-p', String(server.port), '-U', 'postgres']
    const load = ['-n', '-M', 'prepared', '-c', String(connections), '-j', '1', '-T', String(seconds)]
    try {
      const args = [...target, ...load, '-D', 'count=0', '-f', file, new URL(url).pathname.slice(1)]
      const { stdout } = await run('pgbench', args)
      return Number(/tps = ([\d.]+)/.exec(stdout)?.[1])
    } finally {
      rmSync(folder, { recursive: true })
    }
  }
}
