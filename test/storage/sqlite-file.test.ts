import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { openDatabase } from '../../src/storage/database.ts'
import { openSqliteStores } from '../../src/stores/stores.ts'
import { conservatory } from '../support/command.ts'
import { eventually } from '../support/eventually.ts'
import { eachPage, plantsOf } from '../support/plant-pages.ts'
import { add, folderForThisTest, preset, start } from '../support/preset-service.ts'
import { serviceForThisTest, temporaryFolder } from '../support/service.ts'

const shared = temporaryFolder()
const databasePath = join(shared.path, 'conservatory.db')
beforeAll(() => openSqliteStores(databasePath).close())
afterAll(() => shared.remove())

describe('the database file', () => {
  it('is in WAL mode, every table is STRICT, and each migration is recorded once, in order', () => {
    const reader = new Database(databasePath, { readonly: true })
    onTestFinished(() => {
      reader.close()
    })
    expect(reader.pragma('journal_mode', { simple: true })).toBe('wal')
    const tables = reader
      .prepare<[], { name: string; strict: number }>(
        `SELECT name, strict FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite%'`,
      )
      .all()
    expect(tables.map(({ name }) => name)).toEqual(expect.arrayContaining(['accounts', 'keys', 'plants', 'migrations']))
    expect(tables.filter(({ strict }) => strict !== 1)).toStrictEqual([])
    const names = reader.prepare<[], string>('SELECT name FROM migrations ORDER BY rowid').pluck().all()
    expect(names.length).toBeGreaterThan(0)
    expect(names).toStrictEqual([...new Set(names)].toSorted())
    expect(reader.pragma('integrity_check', { simple: true })).toBe('ok')
  })

  it('refuses values of another type, and plants without an account', () => {
    const own = openDatabase(databasePath)
    onTestFinished(() => {
      own.close()
    })
    const insert = own.prepare('INSERT INTO plants (account, id, name) VALUES (?, ?, ?)')
    expect(() => insert.run(1, 'seven', 'a')).toThrow(/cannot store TEXT value in INTEGER column/)
    expect(() => insert.run(1, 1.5, 'a')).toThrow(/cannot store REAL value in INTEGER column/)
    expect(() => insert.run(987_654_321, 1, 'a')).toThrow(/FOREIGN KEY/)
  })

  it('is written through a connection that waits for the disk at every commit', () => {
    const own = openDatabase(databasePath)
    onTestFinished(() => {
      own.close()
    })
    // 2 is FULL: https://www.sqlite.org/pragma.html#pragma_synchronous
    expect(own.pragma('synchronous', { simple: true })).toBe(2)
    expect(own.pragma('journal_mode', { simple: true })).toBe('wal')
  })

  it('is released by a long list after ten minutes; then the list ends with an error', async () => {
    const stores = openSqliteStores(databasePath)
    onTestFinished(() => stores.close())
    const { id } = await stores.access.createAccount('ann')
    const writer = new Database(databasePath, { timeout: 0 })
    writer.exec(`
      INSERT INTO plants (account, id, name)
      WITH RECURSIVE ids (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < 2500)
      SELECT ${id}, ids.id, 'a' FROM ids`)
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => {
      vi.useRealTimers()
      writer.close()
    })
    const hasReader = () => writer.pragma('wal_checkpoint(TRUNCATE)', { simple: true }) === 1
    const lengths: number[] = []
    const read = async () => {
      for await (const page of stores.plants.listLong(id, {}, eachPage)) {
        lengths.push(plantsOf(page).length)
        if (lengths.length > 1) continue
        writer.prepare('INSERT INTO plants (account, id, name, tag) VALUES (?, 9000, ?, NULL)').run(id, 'late')
        vi.advanceTimersByTime(599_000)
        expect(hasReader()).toBe(true)
        vi.advanceTimersByTime(1000)
        expect(hasReader()).toBe(false)
      }
    }
    await expect(read()).rejects.toThrow('ten minutes')
    expect(lengths).toHaveLength(1)
    expect(vi.getTimerCount()).toBe(0)
  })

  it('that the service cannot use stops the start with one line, and does not change', async () => {
    const [garbage, newer, taken] = [folderForThisTest(), folderForThisTest(), folderForThisTest()]
    writeFileSync(join(garbage, 'conservatory.db'), 'these bytes are no database, '.repeat(300))
    mkdirSync(join(taken, 'conservatory.db'))
    await openSqliteStores(join(newer, 'conservatory.db')).close()
    const database = new Database(join(newer, 'conservatory.db'))
    database.prepare('INSERT INTO migrations (name, applied) VALUES (?, 0)').run('9999-from-the-future')
    database.close()
    const ended = await Promise.all(
      [garbage, newer, taken].map((path) => conservatory([], { DATA_DIR: path, PORT: '0' })),
    )
    const lines = [
      `The database ${join(garbage, 'conservatory.db')} cannot be opened: file is not a database. Restore a backup: conservatory restore FILE --force.`,
      'The database was written by a newer version of Conservatory (it has 9999-from-the-future). Start that version.',
      `The database ${join(taken, 'conservatory.db')} is a folder. Move it away, or set DATA_DIR to another folder.`,
    ]
    for (const [index, line] of lines.entries()) {
      expect(ended[index]).toStrictEqual({ code: 1, stdout: '', stderr: `${line}\n` })
    }
    expect(readFileSync(join(garbage, 'conservatory.db'), 'utf8')).toBe('these bytes are no database, '.repeat(300))
  })

  it('with a log of 50 MB from a killed service has all its rows after the next start', async () => {
    const folder = folderForThisTest()
    const path = join(folder, 'conservatory.db')
    const service = await start(folder)
    expect((await add(service.url, 'Moss')).status).toBe(200)
    // A reader blocks checkpoints, as a long list does when its client stops reading.
    const reader = new Database(path, { readonly: true })
    reader.exec('BEGIN')
    expect(reader.prepare('SELECT count(*) FROM plants').pluck().get()).toBe(1)
    const writer = new Database(path)
    writer.exec(`
      WITH RECURSIVE number (n) AS (SELECT 1000 UNION ALL SELECT n + 1 FROM number WHERE n < 200999)
      INSERT INTO plants (account, id, name, tag) SELECT (SELECT min(id) FROM accounts), n, printf('%0250d', n), NULL FROM number`)
    writer.close()
    expect((await add(service.url, 'Fern')).status).toBe(200)
    service.process.kill('SIGKILL')
    await service.exited
    reader.close()
    expect(statSync(`${path}-wal`).size).toBeGreaterThan(50e6)

    const next = await serviceForThisTest({ DATA_DIR: folder, BOOTSTRAP_KEY: preset })
    expect((await add(next.url, 'Ivy')).status).toBe(200)
    const database = new Database(path, { readonly: true })
    expect(database.prepare('SELECT count(*), max(id) FROM plants').raw().get()).toEqual([200_003, 201_001])
    database.close()
  })
})

describe('two services', () => {
  it('cannot share a data folder: the second is refused in one line, and commands work beside the first', async () => {
    const folder = folderForThisTest()
    const first = await start(folder)
    const second = await conservatory([], { DATA_DIR: folder, PORT: '0' })
    expect(second).toMatchObject({ code: 1, stdout: '' })
    expect(second.stderr).toBe(
      `Another service uses the data folder ${folder} already. Stop it, or set DATA_DIR to another.\n`,
    )
    expect((await conservatory(['accounts', 'list'], { DATA_DIR: folder })).code).toBe(0)
    first.process.kill('SIGKILL')
    await first.exited
    // A killed service keeps no lock.
    const third = await serviceForThisTest({ DATA_DIR: folder, BOOTSTRAP_KEY: preset })
    expect((await add(third.url, 'Moss')).status).toBe(200)
  })
})

it('another program with the write lock delays only writes, for five seconds at most', async () => {
  const path = join(folderForThisTest(), 'conservatory.db')
  const stores = openSqliteStores(path)
  const { id } = await stores.access.createAccount('ann')
  stores.beginServing?.()
  const other = new Database(path)
  onTestFinished(async () => {
    other.close()
    await stores.close()
  })
  other.exec('BEGIN IMMEDIATE')
  let turns = 0
  const turning = setInterval(() => turns++, 10)
  const first = stores.plants.create(id, { name: 'Fern' })
  await eventually(() => expect(turns).toBeGreaterThan(5))
  other.exec('COMMIT')
  expect((await first).plant.id).toBe(1)
  other.exec('BEGIN IMMEDIATE')
  await expect(stores.plants.create(id, { name: 'Moss' })).rejects.toMatchObject({ status: 503, code: 'database_busy' })
  other.exec('COMMIT')
  clearInterval(turning)
  expect((await stores.plants.create(id, { name: 'Moss' })).plant.id).toBe(2)
})
