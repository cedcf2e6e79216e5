import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { openDatabase } from '../../src/storage/database.ts'
import { migrations, postgresMigrations } from '../../src/storage/migrations.ts'
import { PostgresDatabase } from '../../src/storage/postgres/database.ts'
import { migratePostgres } from '../../src/storage/postgres/migrate.ts'
import { pruneOnce } from '../../src/storage/prune.ts'
import { openPostgresStores } from '../../src/stores/postgres.ts'
import { openSqliteStores } from '../../src/stores/stores.ts'
import { allRecords, byCommand, byKey, byService } from '../support/audit.ts'
import { conservatory } from '../support/command.ts'
import { eventually } from '../support/eventually.ts'
import { spawnService } from '../support/process.ts'
import { temporaryFolder } from '../support/service.ts'
import { newPostgresDatabase } from '../support/shared-postgres.ts'
import { openStoresOf } from '../support/test-database.ts'
import { sqlForThisTest } from '../support/test-sql.ts'

function folderForThisTest(): string {
  const { path, remove } = temporaryFolder()
  onTestFinished(remove)
  return path
}

/** The audit records of a SQLite file, which is opened as a command opens it. */
async function recordsIn(path: string) {
  const stores = openSqliteStores(path)
  const records = await allRecords(stores)
  await stores.close()
  return records
}

it('a successful SIGHUP leaves one record, and the log has a line for each record of the service', async () => {
  const folder = folderForThisTest()
  const models = (...names: readonly string[]) =>
    writeFileSync(
      join(folder, 'models.json'),
      JSON.stringify({ models: Object.fromEntries(names.map((name) => [name, { adapter: 'understudy' }])) }),
    )
  models('one')
  const service = await spawnService(process.execPath, ['src/main.ts'], { environment: { DATA_DIR: folder } })
  const stores = await openStoresOf(folder)
  onTestFinished(() => stores.close())
  const headers = { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' }
  const made = await fetch(`${service.url}/keys`, { method: 'POST', headers, body: '{"scopes":["chat"]}' })
  expect(made.status).toBe(201)
  writeFileSync(join(folder, 'models.json'), '{')
  service.process.kill('SIGHUP')
  await eventually(() => expect(service.stdout()).toContain('the models cannot be read again'))
  models('one', 'two')
  service.process.kill('SIGHUP')
  await eventually(async () => expect(await allRecords(stores)).toHaveLength(4))
  const records = await allRecords(stores)
  expect(records[2]).toMatchObject({ ...byKey(service.key, 'owner'), action: 'key.created' })
  expect(records[3]).toMatchObject({
    ...byService,
    action: 'models.reloaded',
    target: null,
    before: { models: ['one'] },
    after: { models: ['one', 'two'] },
  })
  const logged = () =>
    service
      .stdout()
      .split('\n')
      .filter((line) => line.includes('"audit_record"'))
      .map((line): unknown => JSON.parse(line))
  await eventually(() => expect(logged()).toHaveLength(4))
  expect(logged()).toMatchObject(records)
})

it('a restore leaves one record in the restored database, also with a schema from before the audit trail', async () => {
  const folder = folderForThisTest()
  const older = migrations.filter(({ name }) => name < '0012')
  for (const [name, history] of [['same', migrations] as const, ['older', older] as const]) {
    const source = join(folder, `${name}.db`)
    openDatabase(source, history).close()
    const data = join(folder, `data-${name}`)
    mkdirSync(data)
    expect((await restore(source, data)).code).toBe(0)
    const records = await recordsIn(join(data, 'conservatory.db'))
    const restored = records.filter(({ action }) => action === 'database.restored')
    expect(restored).toMatchObject([{ ...byCommand, target: null, before: null }])
    expect(restored[0]?.after).toEqual(name === 'same' ? { backup: 'same.db' } : null)
    expect(await recordsIn(join(data, 'conservatory.db'))).toEqual(records)
    expect(await recordsIn(source)).toHaveLength(name === 'same' ? 0 : 1)
  }
})

it('a migration of an existing database leaves one record, on both engines', async () => {
  const path = join(folderForThisTest(), 'conservatory.db')
  openDatabase(path, migrations.slice(0, 3)).close()
  const newest = migrations.at(-1)?.name
  const changed = { ...byCommand, action: 'database.migrated', target: null, after: { schema: newest } }
  expect(await recordsIn(path)).toMatchObject([{ ...changed, before: { schema: migrations[2]?.name } }])
  expect(await recordsIn(path)).toHaveLength(1)

  const url = await newPostgresDatabase()
  const database = new PostgresDatabase(url)
  await migratePostgres(database, postgresMigrations.slice(0, 2))
  await database.close()
  for (let opened = 0; opened < 2; opened++) {
    const stores = await openPostgresStores(url)
    expect(await allRecords(stores)).toMatchObject([
      {
        ...byCommand,
        action: 'database.migrated',
        before: { schema: '0002-shared-limits' },
        after: { schema: postgresMigrations.at(-1)?.name },
      },
    ])
    await stores.close()
  }
})

it('a move copies all records, and adds one record', async () => {
  const folder = folderForThisTest()
  const [there, back] = [join(folder, 'there', 'conservatory.db'), join(folder, 'back', 'conservatory.db')]
  const stores = openSqliteStores(there)
  await stores.access.createAccount('ann')
  await stores.characters.put(1, {
    name: 'n\0l\\0',
    digest: 'x',
    source: Buffer.from('x'),
    about: { creator: '', tags: [] },
  })
  const before = await allRecords(stores)
  await stores.close()
  const url = await newPostgresDatabase()
  const move = (from: string, to: string) => conservatory(['migrate', '--from', from, '--to', to], {})
  expect((await move(`sqlite:${there}`, url)).code).toBe(0)
  const moved = await openPostgresStores(url)
  const after = await allRecords(moved)
  expect(after.slice(0, -1)).toEqual(before)
  const said = { ...byCommand, action: 'database.migrated', target: null, before: { place: there } }
  expect(after.at(-1)).toMatchObject({
    ...said,
    after: { place: expect.stringContaining('/test_'), rows: expect.any(Number) },
  })
  await moved.access.suspendAccount('ann')
  const all = await allRecords(moved)
  await moved.close()
  expect((await move(url, `sqlite:${back}`)).code).toBe(0)
  const home = await recordsIn(back)
  expect(home.slice(0, -1)).toEqual(all)
  expect(home).toHaveLength(5)
})

it('a purge of old versions leaves one record with their digests; a purge that removes nothing leaves no record', async () => {
  const stores = await openStoresOf(folderForThisTest())
  const { id } = await stores.access.createAccount('ann')
  const about = { creator: '', tags: [] }
  const digests = Array.from({ length: 23 }, (_, count) => String(count).padStart(64, '0'))
  for (const digest of digests) {
    await stores.characters.put(id, { name: 'Moss', digest, source: Buffer.from(digest), about })
  }
  const before = await allRecords(stores)
  const soon = Math.floor(Date.now() / 1000) + 100
  expect((await stores.characters.purge(null, soon)).removed).toHaveLength(3)
  await stores.characters.purge(null, soon)
  const after = await allRecords(stores)
  expect(after.slice(0, -1)).toEqual(before)
  const gone = expect.arrayContaining(digests.slice(0, 3).map((digest) => `sha256:${digest}`))
  const said = { ...byService, action: 'character.purged', target: 'Moss', after: null }
  expect(after.at(-1)).toMatchObject({ ...said, before: { digests: gone } })
  await stores.close()
})

it('records from before a moment are removed, and no others; records that come later are listed', async () => {
  const stores = await openStoresOf(folderForThisTest())
  await stores.access.createAccount('ann')
  await stores.access.suspendAccount('ann')
  const records = await allRecords(stores)
  await pruneOnce(stores.audit, records[0]?.at ?? 0)
  expect(await allRecords(stores)).toEqual(records)
  await pruneOnce(stores.audit, Math.floor(Date.now() / 1000) + 1)
  expect(await allRecords(stores)).toEqual([])
  await stores.access.resumeAccount('ann')
  expect(await allRecords(stores)).toMatchObject([{ action: 'account.resumed' }])
  await stores.close()
})

it('records of one action are found among thousands of others, page by page', async () => {
  const folder = folderForThisTest()
  const stores = await openStoresOf(folder)
  const sql = await sqlForThisTest(folder)
  await sql.run(`
    INSERT INTO audit_records (seq, id, at, actor, action, account_name)
    WITH RECURSIVE ids (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < 13000)
    SELECT 5000 + 2 * id, 'record ' || id, id, 'command_line',
      CASE WHEN id IN (1, 5000, 5001, 12999) THEN 'key.created' ELSE 'key.limited' END, 'gardeners' FROM ids`)
  const found = async (more: object) => {
    const records = await stores.audit.list({ action: 'key.created', limit: 3, ...more })
    return records.map(({ id }) => id)
  }
  expect(await found({})).toEqual(['record 1', 'record 5000', 'record 5001'])
  expect(await found({ after: 'record 5000' })).toEqual(['record 5001', 'record 12999'])
  expect(await found({ since: 5001, accountName: 'gardeners' })).toEqual(['record 5001', 'record 12999'])
  expect(await found({ after: 'record 12999' })).toEqual([])
  expect((await allRecords(stores)).length).toBe(13_000)
  expect(await stores.audit.list({ action: 'models.reloaded', limit: 3 })).toEqual([])
  await stores.close()
})

function restore(file: string, data: string) {
  return conservatory(['restore', file], { DATA_DIR: data, DATABASE_URL: '' })
}
