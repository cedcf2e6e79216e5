import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { SqliteCharacterStore } from '../../src/characters/sqlite.ts'
import { OutsideChanges } from '../../src/storage/caches.ts'
import { openDatabase } from '../../src/storage/database.ts'
import { migrations } from '../../src/storage/migrations.ts'
import { unixSeconds } from '../../src/time.ts'
import { temporaryFolder } from '../support/service.ts'

function pathForThisTest(): string {
  const folder = temporaryFolder()
  onTestFinished(folder.remove)
  return join(folder.path, 'conservatory.db')
}

const about = { tags: [], creator: '' }

it('existing versions count as used on the day of the migration', async () => {
  const path = pathForThisTest()
  const before = openDatabase(
    path,
    migrations.filter(({ name }) => name < '0010'),
  )
  before.exec(`
    INSERT INTO accounts (id, name, created) VALUES (1, 'ann', 0);
    INSERT INTO characters VALUES (1, 'Fern', 'fern', 'd029', '{}', 0, 0)`)
  const insert = before.prepare("INSERT INTO character_versions VALUES (1, 'Fern', ?, ?, ?)")
  for (let version = 0; version < 30; version++) {
    insert.run(`d${String(version).padStart(3, '0')}`, Buffer.alloc(version + 1), 1000 + version)
  }
  before.close()

  const begin = unixSeconds()
  const database = openDatabase(path)
  onTestFinished(() => {
    database.close()
  })
  const rows = database.prepare<[], { bytes: number; used: number }>('SELECT bytes, used FROM character_use').all()
  expect(rows.map(({ bytes }) => bytes)).toStrictEqual(Array.from({ length: 30 }, (_, version) => version + 1))
  for (const { used } of rows) expect(used).toBeGreaterThanOrEqual(begin)
  const store = new SqliteCharacterStore(database, new OutsideChanges(database))
  expect((await store.purge(null, begin)).removed).toStrictEqual([])
  // A purge of all versions that were not used after the migration keeps only the 20 that were uploaded last.
  const { removed } = await store.purge(null, unixSeconds() + 1)
  expect(removed.map(({ digest }) => digest).toSorted()).toStrictEqual(
    Array.from({ length: 10 }, (_, version) => `d00${version}`),
  )
})

it('deleted rows free space for new rows: the file does not grow', async () => {
  const database = openDatabase(pathForThisTest())
  onTestFinished(() => {
    database.close()
  })
  database.exec("INSERT INTO accounts (id, name, created) VALUES (1, 'ann', 0)")
  const store = new SqliteCharacterStore(database, new OutsideChanges(database))
  const fill = async () => {
    for (let each = 0; each < 40; each++) {
      const digest = randomBytes(32).toString('hex')
      await store.put(1, { name: 'Fern', digest, source: randomBytes(100_000), about })
    }
  }
  const pages = () => Number(database.pragma('page_count', { simple: true }))
  await fill()
  const filled = pages()
  expect(await store.remove(1, 'Fern')).toBe(true)
  await fill()
  expect(pages()).toBeLessThanOrEqual(filled + 5)
  // A purge frees space too.
  expect((await store.purge(null, 0)).removed).toHaveLength(10)
  expect((await store.purge(null, 0)).removed).toHaveLength(10)
  for (let each = 0; each < 20; each++) {
    const digest = randomBytes(32).toString('hex')
    await store.put(1, { name: 'Moss', digest, source: randomBytes(100_000), about })
  }
  expect(pages()).toBeLessThanOrEqual(filled + 10)
})
