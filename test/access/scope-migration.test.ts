import { join } from 'node:path'
import postgres from 'postgres'
import { describe, expect, it, onTestFinished } from 'vitest'
import { readConfig } from '../../src/config.ts'
import { type Service, startService } from '../../src/service.ts'
import { openDatabase } from '../../src/storage/database.ts'
import { migrations, postgresMigrations } from '../../src/storage/migrations.ts'
import { PostgresDatabase } from '../../src/storage/postgres/database.ts'
import { migratePostgres } from '../../src/storage/postgres/migrate.ts'
import { temporaryFolder } from '../support/service.ts'
import { newPostgresDatabase } from '../support/shared-postgres.ts'

/** Makes a database with the schema from before the scope keys, and runs SQL in it. @returns the settings of its service */
type Fill = (sql: string) => Promise<Readonly<Record<string, string>>>

const engines: readonly (readonly [string, Fill])[] = [
  ['SQLite', inSqlite],
  ['PostgreSQL', inPostgres],
]

const accounts =
  "INSERT INTO accounts (id, name, created) VALUES (1, 'closed', 0), (2, 'operator', 0), (3, 'tenant', 0);"
const tenantScopes = ['plants:read', 'plants:write', 'chat', 'characters:write', 'keys']

describe.each(engines)('a database from before the scope keys, in %s', (_, fill) => {
  it('keeps the scope admin in the first account with a working admin key, and reports each changed key once', async () => {
    const settings = await fill(`
      ${accounts}
      UPDATE accounts SET suspended = 5 WHERE id = 1;
      ${keys('closed', 1, 'admin,chat', 'NULL', 'NULL')}
      ${keys('operator', 2, 'chat,admin', 'NULL', 'NULL')}
      ${keys('operator-gone', 2, 'admin', 'NULL', '5')}
      ${keys('tenant', 3, 'admin', 'NULL', 'NULL')}
      ${keys('tenant-past', 3, 'plants:read,admin', '5', 'NULL')}
      ${keys('tenant-plain', 3, 'plants:read', 'NULL', 'NULL')}`)
    const service = await start(settings)
    expect(service.bootstrap).toMatchObject({ warnings: [] })
    expect(
      service.bootstrap.notices.map((notice) => /^The key (\S+) of the account "(\w+)"/.exec(notice)?.slice(1)),
    ).toEqual([
      ['closed', 'closed'],
      ['tenant', 'tenant'],
      ['tenant-past', 'tenant'],
    ])
    await service.close()
    expect(await scopesOf(settings)).toEqual({
      closed: tenantScopes,
      operator: ['chat', 'admin'],
      'operator-gone': ['admin'],
      tenant: tenantScopes,
      'tenant-past': tenantScopes,
      'tenant-plain': ['plants:read'],
    })
    const again = await start(settings)
    await again.close()
    expect(again.bootstrap.notices).toEqual([])
  })

  it('without a working admin key makes each start report that, with the command that creates such a key', async () => {
    const settings = await fill(`
      ${accounts}
      ${keys('ended', 2, 'admin', 'NULL', '5')}
      ${keys('past', 3, 'admin,chat', '5', 'NULL')}
      ${keys('plain', 3, 'plants:read', 'NULL', 'NULL')}`)
    for (const notices of [2, 0]) {
      const service = await start(settings)
      await service.close()
      expect(service.bootstrap.notices).toHaveLength(notices)
      expect(service.bootstrap.warnings).toEqual([expect.stringContaining('keys create --account NAME --scopes admin')])
    }
    expect(await scopesOf(settings)).toEqual({ ended: tenantScopes, past: tenantScopes, plain: ['plants:read'] })
  })
})

/** A statement that adds a key. The name is also its id, its prefix and its digest. */
function keys(name: string, account: number, scopes: string, expires: string, revoked: string): string {
  return `INSERT INTO keys (id, account, prefix, digest, scopes, created, expires, revoked)
    VALUES ('${name}', ${account}, '${name}', '${name}', '${scopes}', 0, ${expires}, ${revoked});`
}

async function start(settings: Readonly<Record<string, string>>): Promise<Service> {
  return startService(readConfig({ PORT: '0', LOG_LEVEL: 'silent', ...settings }))
}

async function scopesOf(
  settings: Readonly<Record<string, string>>,
): Promise<Readonly<Record<string, readonly string[]>>> {
  const { openStores } = await import('../../src/stores/open.ts')
  const stores = await openStores(readConfig(settings))
  const found = await stores.access.listKeys()
  await stores.close()
  return Object.fromEntries(found.map(({ id, scopes }) => [id, scopes]))
}

function folderForThisTest(): string {
  const folder = temporaryFolder()
  onTestFinished(folder.remove)
  return folder.path
}

async function inSqlite(sql: string): Promise<Readonly<Record<string, string>>> {
  const folder = folderForThisTest()
  const before = openDatabase(
    join(folder, 'conservatory.db'),
    migrations.filter(({ name }) => name < '0009'),
  )
  before.exec(sql)
  before.close()
  return { DATA_DIR: folder }
}

async function inPostgres(statements: string): Promise<Readonly<Record<string, string>>> {
  const url = await newPostgresDatabase()
  const database = new PostgresDatabase(url)
  await migratePostgres(
    database,
    postgresMigrations.filter(({ name }) => name < '0003'),
  )
  await database.close()
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  await sql.unsafe(statements)
  await sql.end()
  return { DATABASE_URL: url, DATA_DIR: folderForThisTest() }
}
