import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { SqlitePlantStore } from '../../src/plants/sqlite.ts'
import { openDatabase } from '../../src/storage/database.ts'
import { GroupCommit } from '../../src/storage/group-commit.ts'
import { migrations } from '../../src/storage/migrations.ts'
import { OutsideChanges } from '../../src/storage/outside-changes.ts'
import { temporaryFolder } from '../support/service.ts'

it('plants that are older than the column json are listed like new plants', async () => {
  const folder = temporaryFolder()
  onTestFinished(folder.remove)
  const path = join(folder.path, 'conservatory.db')
  const before = openDatabase(
    path,
    migrations.filter(({ name }) => name < '0008'),
  )
  before.exec("INSERT INTO accounts (id, name, created) VALUES (1, 'ann', 0), (2, 'bob', 0)")
  const plants = ['"{\\', '\u2028\u00ad🌵', 'ß'.repeat(255), '\\u0041%s'].flatMap((text) => [
    { name: text },
    { name: text, tag: text },
  ])
  for (const [index, { name, tag }] of plants.entries()) {
    before.prepare('INSERT INTO plants VALUES (1, ?, ?, ?)').run(-index, name, tag ?? null)
  }
  before.prepare('INSERT INTO plants VALUES (2, 1, ?, NULL)').run('another')
  before.close()

  const database = openDatabase(path)
  onTestFinished(() => {
    database.close()
  })
  const store = new SqlitePlantStore(database, new GroupCommit(database), new OutsideChanges(database))
  expect(await store.list(1, {}, 100)).toEqual({ json: JSON.stringify(plants.toReversed()) })
  expect(await store.list(2, {}, 100)).toEqual({ json: '[{"name":"another"}]' })
  expect(database.pragma('foreign_key_list(plants)')).toHaveLength(1)
  expect((await store.create(2, { name: 'next' })).plant.id).toBe(2)
})
