import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { openDatabase } from '../src/storage/database.ts'
import { startPostgres } from '../test/support/postgres.ts'
import { atLeast, atMost, type Figure, round2 } from './measure.ts'
import { Folders } from './plants.ts'
import { type Used, watchUse } from './processes.ts'

/*
 * 1,000,000 plants (PLANTS) of 1,000 accounts, with keys, grants, characters and 100,000 ledger rows, are moved from SQLite to
 * a PostgreSQL that waits for the disk, and back. Then they are moved again, the moving process is killed with kill -9 at a
 * random moment, and the same command runs once more. Targets: equal checksums every time, and at the end a SQLite file with
 * the same rows as the first one; at least 10,000 rows/s each way; at most 300 MB of memory with a heap of 128 MB, which shows
 * that memory does not grow with the rows.
 */

const main = fileURLToPath(new URL('../src/main.ts', import.meta.url))
const plants = Number(process.env['PLANTS'] ?? 1_000_000)

interface Moved extends Used {
  /** The lines of the command's output with the checksums. */
  readonly checksums: string
  readonly seconds: number
}

/** Moves the data to PostgreSQL and back, first without an interruption, then with a kill -9 of each move. */
export async function benchMove(): Promise<readonly Figure[]> {
  const server = await startPostgres({ fsync: 'on' })
  const folders = new Folders()
  const file = (folder: string) => `sqlite:${join(folder, 'conservatory.db')}`
  try {
    const origin = folders.make()
    const rows = seed(join(origin, 'conservatory.db'))
    const ways: Readonly<Record<string, (from: string, to: string) => Promise<readonly Moved[]>>> = {
      whole: async (from, to) => [await migrate(from, to)],
      killed: moveKilled,
    }
    const table: Record<string, object> = {}
    const figures: Figure[] = []
    let seconds = 0
    for (const [way, run] of Object.entries(ways)) {
      const url = await server.createDatabase()
      const home = folders.make()
      const there = await run(file(origin), url)
      const back = await run(url, file(home))
      const differences =
        differencesOf(join(origin, 'conservatory.db'), join(home, 'conservatory.db')) +
        Number(there.at(-1)?.checksums !== back.at(-1)?.checksums)
      for (const [direction, runs] of Object.entries({ there, back })) {
        seconds = runs.reduce((sum, run) => sum + run.seconds, 0)
        const megabytes = Math.max(...runs.map((run) => run.megabytes))
        const rate = rows / seconds
        table[`${way}, ${direction}`] = {
          runs: runs.length,
          seconds: round2(seconds),
          'rows/s': Math.round(rate),
          'its CPU s': round2(runs.reduce((sum, run) => sum + run.cpuSeconds, 0)),
          MB: round2(megabytes),
        }
        if (way === 'whole') figures.push(atLeast(`move of ${rows} rows, ${direction}, rows/s`, 10_000, rate))
        figures.push(atMost(`move, ${way}, ${direction}, memory at most`, 300, megabytes, ' MB'))
      }
      figures.push(atMost(`move, ${way}, there and back: rows that differ`, 0, differences))
    }
    console.table(table)
    return figures
  } finally {
    folders.remove()
    await server.stop()
  }
}

/** Kills a move at a random moment after its first and before its last tenth of the rows, and runs the same command again. */
async function moveKilled(from: string, to: string): Promise<readonly Moved[]> {
  const tenth = 1 + Math.floor(Math.random() * 8)
  const cut = await migrate(from, to, tenth)
  return [cut, await migrate(from, to)]
}

/** Runs `conservatory migrate`. @param killAfter kills the command some time after it has reported this many tenths of the rows */
async function migrate(from: string, to: string, killAfter?: number): Promise<Moved> {
  const begun = performance.now()
  const child = spawn(process.execPath, ['--max-old-space-size=128', main, 'migrate', '--from', from, '--to', to], {
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const exited = new Promise<NodeJS.Signals | null>((resolve) => child.once('exit', (_code, signal) => resolve(signal)))
  const use = watchUse(child)
  let printed = ''
  let tenths = 0
  child.stderr.on('data', (text) => {
    printed += text
    tenths += String(text).match(/^moving:/gm)?.length ?? 0
    if (tenths === killAfter) setTimeout(() => child.kill('SIGKILL'), Math.random() * 500)
  })
  const signal = await exited
  const used = use()
  if (killAfter === undefined ? child.exitCode !== 0 : signal !== 'SIGKILL')
    throw new Error(`The move ended with ${printed}`)
  const checksums = printed.slice(printed.indexOf('Everything is moved'))
  return { checksums, seconds: (performance.now() - begun) / 1000, ...used }
}

/** Fills a new database, and returns its number of rows. */
function seed(path: string): number {
  const database = openDatabase(path)
  const count = (name: string, most: number) =>
    `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${most}) INSERT INTO ${name}`
  database.exec(`
    ${count('accounts', 1000)} (id, name, created) SELECT i, 'account ' || i, i FROM n;
    ${count('keys', 2000)} (id, account, prefix, digest, scopes, created)
      SELECT 'key_' || i, 1 + i % 1000, 'cv_' || i, 'digest ' || i, 'chat,plants:read', i FROM n;
    ${count('grants', 1000)} SELECT i, 1 + i % 1000, CASE i % 2 WHEN 0 THEN '' ELSE 'tag' END, i FROM n;
    ${count('plants', plants)} SELECT 1 + i % 1000, i, 'Plant ' || i || ' 🌿', CASE i % 3 WHEN 0 THEN 'tag ' || (i % 50) END FROM n;
    ${count('idempotency_keys', 10_000)} SELECT 1 + i % 1000, 'key ' || i, hex(randomblob(32)), i, 'Plant', NULL, i FROM n;
    ${count('characters', 200)} SELECT i, 'Fern \\' || i, 'fern \\' || i, 'digest', '{"about":"' || hex(randomblob(5000)) || '"}', i, i FROM n;
    ${count('character_versions', 200)} SELECT i, 'Fern \\' || i, 'digest', randomblob(CASE i WHEN 100 THEN 5000000 ELSE 20000 END), i FROM n;
    ${count('requests', 100_000)}
      SELECT hex(randomblob(16)), 1 + i % 1000, 'key_' || (i % 2000), 'cv_', 'best', 'gpt', 'Fern@sha256:ca53', i, 0, 900, 200, 1, 40, 400, 0, 'stop' FROM n;
    ${count('spend', 10_000)} SELECT 'account:' || (i % 1000), '2026-11-' || (i / 1000), i FROM n;
  `)
  const tables = [
    'accounts',
    'keys',
    'grants',
    'plants',
    'idempotency_keys',
    'characters',
    'character_versions',
    'requests',
    'spend',
  ]
  const rows = tables.reduce(
    (sum, table) => sum + Number(database.prepare(`SELECT count(*) FROM ${table}`).pluck().get()),
    0,
  )
  database.close()
  return rows
}

/** The number of rows that are in only one of two database files. */
function differencesOf(one: string, other: string): number {
  const database = new Database(one, { readonly: true })
  try {
    database.prepare('ATTACH ? AS other').run(other)
    const tables = database
      .prepare<[], string>("SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name <> 'migrations'")
      .pluck()
      .all()
    const missing = (from: string, to: string) =>
      tables.map(
        (name) => `SELECT count(*) AS n FROM (SELECT * FROM ${from}.${name} EXCEPT SELECT * FROM ${to}.${name})`,
      )
    const counts = [...missing('main', 'other'), ...missing('other', 'main')]
    return Number(
      database
        .prepare(`SELECT sum(n) FROM (${counts.join(' UNION ALL ')})`)
        .pluck()
        .get(),
    )
  } finally {
    database.close()
  }
}
