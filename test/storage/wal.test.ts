import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { statSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import Database from 'better-sqlite3'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openSqliteStores } from '../../src/stores/stores.ts'
import { plantsIn } from '../support/account-files.ts'
import { TestClock } from '../support/clock.ts'
import { until } from '../support/eventually.ts'
import { eachPage, plantsOf } from '../support/plant-pages.ts'
import { folderForThisTest } from '../support/preset-service.ts'
import { compileCache, projectFolder } from '../support/process.ts'

const million = 1_000_000

/**
 * The stores of a service with a test clock, an account, and functions to write and to measure the log.
 * @param target the file to which the database is a symbolic link; by default the database is no link
 */
async function serving(target?: string) {
  const path = join(folderForThisTest(), 'conservatory.db')
  if (target !== undefined) symlinkSync(target, path)
  const stores = openSqliteStores(path)
  onTestFinished(() => stores.close())
  const clock = new TestClock()
  stores.beginServing?.(clock)
  const { id } = await stores.access.createAccount('ann')
  const walBytes = () => statSync(`${target ?? path}-wal`).size
  let names = 0
  /** Writes this number of bytes in names, in many commits. */
  const write = async (bytes: number) => {
    for (let written = 0; written < bytes; written += 50_000) {
      await stores.plants.create(id, { name: `${++names} ${'n'.repeat(50_000)}` })
    }
  }
  /** Lets seconds pass one by one, and waits each time until the work of that second is done. */
  const pass = async (seconds: number) => {
    for (let second = 0; second < seconds; second++) {
      clock.advance(1000)
      await until(() => clock.isWaiting(1000) || clock.isWaiting(5000))
    }
  }
  const gauge = () =>
    [...(stores.metrics.find(({ name }) => name === 'conservatory_wal_bytes')?.samples() ?? [])][0]?.value
  return { path, stores, id, walBytes, write, pass, gauge }
}

describe('(p) the log beside a SQLite file', () => {
  it('(p) is measured beside the file to which a symbolic link leads', async () => {
    const { write, walBytes, gauge } = await serving(join(folderForThisTest(), 'real.db'))
    await write(100_000)
    expect(walBytes()).toBeGreaterThan(100_000)
    expect(gauge()).toBe(walBytes())
  })

  it('(p) stays under 64 MB while the reader of a whole list has stopped; afterwards the list is complete', async () => {
    const { stores, id, walBytes, write, pass } = await serving()
    await Promise.all(Array.from({ length: 1200 }, (_, index) => stores.plants.create(id, { name: `first ${index}` })))
    const pages = stores.plants.listLong(id, {}, eachPage)[Symbol.asyncIterator]()
    const shown = new Set<string>()
    const first = await pages.next()
    for (const plant of plantsOf(first.value)) shown.add(plant.name)
    let most = 0
    for (let round = 0; round < 10; round++) {
      await write(8 * million)
      most = Math.max(most, walBytes())
      await pass(1)
    }
    expect(most).toBeLessThan(64 * million)
    await pass(10)
    expect(walBytes()).toBeLessThan(16 * million)
    for (let next = await pages.next(); !next.done; next = await pages.next()) {
      for (const plant of plantsOf(next.value)) {
        expect(shown.has(plant.name)).toBe(false)
        shown.add(plant.name)
      }
    }
    for (let index = 0; index < 1200; index++) expect(shown.has(`first ${index}`)).toBe(true)
  })

  it('(p) is measured while another program reads, and is under 16 MB ten seconds after that program has ended', async () => {
    const { path, walBytes, write, pass, gauge } = await serving()
    const reader = new Database(path, { readonly: true })
    reader.exec('BEGIN')
    reader.prepare('SELECT count(*) FROM plants').get()
    await write(24 * million)
    await pass(2)
    expect(walBytes()).toBeGreaterThan(24 * million)
    expect(gauge()).toBe(walBytes())
    reader.close()
    await pass(10)
    expect(walBytes()).toBeLessThan(16 * million)
    expect(gauge()).toBe(walBytes())
    // The log is small again, so commits checkpoint it again.
    await write(20 * million)
    expect(walBytes()).toBeLessThan(16 * million)
  })

  it('(p) is truncated when SQLite restarts the log, even without the checkpointer', async () => {
    const { path, stores, id, walBytes, write } = await serving()
    const reader = new Database(path, { readonly: true })
    reader.exec('BEGIN')
    reader.prepare('SELECT count(*) FROM plants').get()
    await write(12 * million)
    reader.close()
    for (let times = 0; times < 3; times++) await stores.plants.create(id, { name: 'n' })
    expect(walBytes()).toBeLessThan(9 * million)
  })

  it('(p) can be truncated beside a slow reader of an export, and the export is complete', async () => {
    const { path, stores, id } = await serving()
    const name = 'n'.repeat(250)
    await Promise.all(Array.from({ length: 4000 }, () => stores.plants.create(id, { name })))
    const env = { PATH: process.env['PATH'], ...compileCache, DATA_DIR: dirname(path) }
    const command = spawn(process.execPath, ['src/main.ts', 'accounts', 'export', 'ann'], { cwd: projectFolder, env })
    onTestFinished(() => void command.kill())
    await once(command.stdout, 'readable')
    await stores.plants.create(id, { name: 'after the export has begun' })
    const other = new Database(path)
    onTestFinished(() => void other.close())
    expect(other.pragma('wal_checkpoint(TRUNCATE)')).toMatchObject([{ busy: 0 }])
    // The rest of the export is larger than the pipe.
    expect(command.exitCode).toBeNull()
    const [exported] = await Promise.all([plantsIn(await text(command.stdout)), once(command, 'exit')])
    expect(command.exitCode).toBe(0)
    expect(exported).toHaveLength(4000)
  })
})
