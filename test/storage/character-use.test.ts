import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { SqliteCharacterStore } from '../../src/characters/sqlite.ts'
import { OutsideChanges } from '../../src/storage/caches.ts'
import { openDatabase } from '../../src/storage/database.ts'
import { temporaryFolder } from '../support/service.ts'

function pathForThisTest(): string {
  const folder = temporaryFolder()
  onTestFinished(folder.remove)
  return join(folder.path, 'conservatory.db')
}

const about = { tags: [], creator: '' }

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
