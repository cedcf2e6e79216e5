import { closeSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import postgres from 'postgres'
import { describe, expect, it, onTestFinished } from 'vitest'
import { readConfig } from '../../../src/config.ts'
import { openStores } from '../../../src/stores/open.ts'
import { conservatory } from '../../support/command.ts'
import { damageSqlite, fileOfRelation, type Part } from '../../support/damage.ts'
import { startPostgres } from '../../support/postgres.ts'
import { folderForThisTest } from '../../support/preset-service.ts'
import { newMigratedDatabase } from '../../support/shared-postgres.ts'
import { openSqlOf, type TestSql } from '../../support/test-sql.ts'

type Settings = Readonly<Record<string, string>>
type Engine = 'SQLite' | 'PostgreSQL'

/** A database with rows in most tables, and the settings of a command over it. */
async function filled(engine: Engine, url?: string): Promise<Settings> {
  const DATA_DIR = folderForThisTest()
  const settings: Settings =
    engine === 'SQLite' ? { DATA_DIR } : { DATA_DIR, DATABASE_URL: url ?? (await newMigratedDatabase()) }
  const stores = await openStores(readConfig(settings))
  const account = await stores.access.createAccount('one')
  const other = await stores.access.createAccount('two')
  const plants = Array.from({ length: 300 }, (_, index) => ({ name: `${index} ${'n'.repeat(60)}`, tag: `t${index}` }))
  await Promise.all(plants.map((plant) => stores.plants.create(account.id, plant)))
  await stores.plants.create(account.id, { name: 'keyed' }, { key: 'key', request: 'request' })
  await stores.plants.share(account.id, other.id)
  const facts = { type: 'image/png', bytes: 3, digest: 'sha256:d' } as const
  await stores.photos.put(account.id, 7, { facts, picture: Buffer.from('abc') })
  await stores.close()
  const sql = openSqlOf(DATA_DIR, settings['DATABASE_URL'])
  await sql.run("INSERT INTO characters VALUES (1, 'Fern', 'fern', 'd', '{}', 0, 0)")
  const source = engine === 'SQLite' ? "x'414243'" : "'\\x414243'::bytea"
  await sql.run(
    `INSERT INTO character_versions (account, name, digest, source, created) VALUES (1, 'Fern', 'd', ${source}, 0)`,
  )
  await sql.run("INSERT INTO character_use VALUES (1, 'Fern', 'd', 3, 0, 0)")
  await sql.close()
  return settings
}

/** Runs statements while the engine does not check foreign keys. */
async function unguarded(settings: Settings, ...statements: readonly string[]): Promise<void> {
  const url = settings['DATABASE_URL']
  const sql: TestSql = openSqlOf(settings['DATA_DIR'] ?? '', url)
  await sql.run(url === undefined ? 'PRAGMA foreign_keys = OFF' : 'SET session_replication_role = replica')
  for (const statement of statements) await sql.run(statement)
  await sql.close()
}

async function checked(settings: Settings) {
  const { code, stdout } = await conservatory(['check', '--json'], settings)
  const { ok, findings }: { ok: boolean; findings: { kind: string; message: string }[] } = JSON.parse(stdout)
  return { code, ok, found: findings.map(({ kind, message }) => `${kind}: ${message}`) }
}

describe.each<Engine>(['SQLite', 'PostgreSQL'])('check, 5, over %s', (engine) => {
  it('finds no fault in a good database, even while another program has the write lock, and writes nothing', async () => {
    const settings = await filled(engine)
    const sql = openSqlOf(settings['DATA_DIR'] ?? '', settings['DATABASE_URL'])
    onTestFinished(() => sql.close())
    if (engine === 'SQLite') await sql.run('BEGIN IMMEDIATE')
    const before = engine === 'SQLite' ? readFileSync(join(settings['DATA_DIR'] ?? '', 'conservatory.db')) : undefined
    expect(await checked(settings)).toStrictEqual({ code: 0, ok: true, found: [] })
    expect(await conservatory(['check'], settings)).toStrictEqual({
      code: 0,
      stdout: '',
      stderr: 'The database is good.\n',
    })
    if (before) expect(readFileSync(join(settings['DATA_DIR'] ?? '', 'conservatory.db')).equals(before)).toBe(true)
  })

  it.each<[string, readonly string[], readonly RegExp[]]>([
    [
      'plants without their account',
      ['DELETE FROM accounts WHERE id = 1'],
      [/^orphan: plants has 301 rows whose account no row of accounts has\.$/],
    ],
    [
      'a share with an unknown account',
      ['UPDATE grants SET grantee = 99'],
      [/^orphan: grants has 1 row whose grantee/],
    ],
    [
      'a key of an unknown account',
      ["INSERT INTO keys (id, account, prefix, digest, scopes, created) VALUES ('k', 99, 'p', 'd', '', 0)"],
      [/^orphan: keys has 1 row/],
    ],
    [
      'an idempotency key of an unknown account',
      ['UPDATE idempotency_keys SET account = 99'],
      [/^orphan: idempotency_keys has 1 row/],
    ],
    [
      'a character without its version',
      ['DELETE FROM character_use', 'DELETE FROM character_versions'],
      [/^orphan: characters has 1 row whose account, name, digest/],
    ],
    ['a version without its character', ['DELETE FROM characters'], [/^orphan: character_versions has 1 row/]],
    [
      'a size that differs from the version',
      ['UPDATE character_use SET bytes = 4'],
      [/^counter: character_use has 1 row with another number of bytes/],
    ],
    [
      'care, a log and events of plants that are gone',
      [
        "INSERT INTO care_rules (account, plant, kind, every_days, set_on) VALUES (1, 999, 'water', 7, '2026-11-29')",
        'INSERT INTO care_logs (log, owner, account, plant) VALUES (1, 1, 1, 999)',
        "INSERT INTO care_events (log, id, at, kind) VALUES (2, 'e', 0, 'water')",
      ],
      [
        /^orphan: care_rules has 1 row whose account, plant/,
        /^orphan: care_logs has 1 row whose account, plant/,
        /^orphan: care_events has 1 row whose log/,
      ],
    ],
    [
      'details of a plant that is gone, and a kept reply, a feed and holdings of an account that is gone',
      [
        "INSERT INTO plant_details (account, plant, notes) VALUES (1, 999, 'n')",
        "INSERT INTO kept_replies (account, key, request, reply, created) VALUES (99, 'k', 'r', '', 0)",
        "INSERT INTO care_feeds (account, digest, created) VALUES (99, 'd', 0)",
        'INSERT INTO holdings (account) VALUES (99)',
      ],
      [
        /^orphan: plant_details has 1 row whose account, plant/,
        /^orphan: kept_replies has 1 row whose account/,
        /^orphan: care_feeds has 1 row whose account/,
        /^orphan: holdings has 1 row whose account/,
      ],
    ],
    [
      'a wrong number of events',
      ['UPDATE holdings SET events = 5'],
      [/^counter: holdings has 1 row with another number of events than the logs of the account have/],
    ],
    [
      'a photo with another number of bytes than its pieces',
      ['UPDATE photos SET bytes = 4'],
      [/^counter: photos has 1 row of plants with another number/, /^counter: holdings has 1 row with another number/],
    ],
    ['pieces of an unknown photo', ['DELETE FROM photos'], [/^orphan: photo_pieces has 1 row whose photo/]],
    [
      'a plant whose id is not a safe integer',
      ['UPDATE plants SET id = 9007199254740993 WHERE id = 1'],
      [/^counter: plants has 1 row with an id/],
    ],
    [
      'counters that are too low',
      engine === 'SQLite' ? ['UPDATE sqlite_sequence SET seq = 1'] : ['UPDATE counters SET value = 1'],
      [/^counter: The counter of accounts is missing, or lower/, /^counter: The counter of audit_records/],
    ],
    ['a table that is gone', ['DROP TABLE notices'], [/^damage: The table notices is missing\.$/]],
  ])('reports %s, and ends with exit code 1', async (_, statements, expected) => {
    const settings = await filled(engine)
    await unguarded(settings, ...statements)
    const { code, ok, found } = await checked(settings)
    expect([code, ok]).toStrictEqual([1, false])
    for (const sentence of expected) expect(found).toContainEqual(expect.stringMatching(sentence))
    const lines = await conservatory(['check'], settings)
    expect(lines.code).toBe(1)
    expect(lines.stdout.trimEnd().split('\n')).toStrictEqual(found.map((line) => line.replace(/^\w+: /, '')))
    expect(lines.stderr).toMatch(/^The database has \d+ faults?: see Damage in docs\/operations\.md\.\n$/)
  })
})

describe('check, 5, over damaged files', () => {
  it.each<[Part, RegExp]>([
    ['table', /^damage: /],
    ['index', /^damage: /],
    ['header', /^damage: .*conservatory\.db is no database that can be read\.$/],
  ])('SQLite: reports a damaged %s', async (part, expected) => {
    const settings = await filled('SQLite')
    damageSqlite(settings['DATA_DIR'] ?? '', part)
    const { code, ok, found } = await checked(settings)
    expect([code, ok]).toStrictEqual([1, false])
    expect(found).toContainEqual(expect.stringMatching(expected))
  })

  it.each([
    ['plants', /^damage: .*plants.* cannot be read: invalid page in block 0/],
    ['plants_by_tag', /^damage: .*plants_by_tag cannot be read/],
  ])('PostgreSQL: reports a damaged page of %s', async (relation, expected) => {
    const server = await startPostgres({ autovacuum: 'off' })
    onTestFinished(() => server.stop())
    const settings = await filled('PostgreSQL', await server.createDatabase())
    const path = join(server.folder, await fileOfRelation(settings['DATABASE_URL'] ?? '', relation))
    await server.end()
    const file = openSync(path, 'r+')
    writeSync(file, Buffer.alloc(8192, 0xa5), 0, 8192, 0)
    closeSync(file)
    await server.start()
    const { code, found } = await checked(settings)
    expect(code).toBe(1)
    expect(found).toContainEqual(expect.stringMatching(expected))
  })

  it('PostgreSQL: finds an index that lacks rows, although no query fails', async () => {
    const server = await startPostgres({ autovacuum: 'off' })
    onTestFinished(() => server.stop())
    const settings = await filled('PostgreSQL', await server.createDatabase())
    const url = settings['DATABASE_URL'] ?? ''
    const path = join(server.folder, await fileOfRelation(url, 'plants_by_tag'))
    const before = readFileSync(path)
    const sql = postgres(url, { max: 1 })
    await sql`INSERT INTO plants (account, id, name, tag) VALUES (2, 1, 'late', 'late')`
    await sql.end()
    await server.end()
    // The index file from before the last plant is put back.
    writeFileSync(path, before)
    await server.start()
    const { code, found } = await checked(settings)
    expect(code).toBe(1)
    expect(found).toContainEqual(
      expect.stringMatching(/^damage: The index plants_by_tag has other rows than its table plants\./),
    )
  })
})
