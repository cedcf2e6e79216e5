import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { readConfig } from '../../src/config.ts'
import { type Service, startService } from '../../src/service.ts'
import { openStores } from '../../src/stores/open.ts'
import type { Made } from '../fixtures/0.1.0/made.ts'
import { projectFolder } from '../support/process.ts'
import { temporaryFolder } from '../support/service.ts'
import { newPostgresDatabase } from '../support/shared-postgres.ts'

type Row = Readonly<Record<string, unknown>>

/** A database of 0.1.0: the settings of a service over it, and a connection for plain SQL. */
interface Old {
  readonly settings: Readonly<Record<string, string>>
  query(sql: string): Promise<readonly Row[]>
  close(): Promise<void>
}

const fixture = join(projectFolder, 'test/fixtures/0.1.0')
const engines: readonly (readonly [string, (sql: string, folder: string) => Promise<Old>])[] = [
  ['sqlite', openSqlite],
  ['postgres', openPostgres],
]

const tenantScopes = ['plants:read', 'plants:write', 'chat', 'characters:write', 'keys']
/** Tables that are not compared, because their rows change with each start or within minutes. */
const notCompared = new Set(['replicas', 'limit_counts', 'limit_shares', 'migration_lock', 'sqlite_sequence'])

describe.each(engines)('a database of 0.1.0, %s', (engine, open) => {
  const made: Made = JSON.parse(readFileSync(join(fixture, `${engine}.json`), 'utf8'))
  const sql = readFileSync(join(fixture, `${engine}.sql`), 'utf8')
  const folder = temporaryFolder()
  let old: Old
  let service: Service
  let before: Readonly<Record<string, readonly Row[]>>
  let after: Readonly<Record<string, readonly Row[]>>

  beforeAll(async () => {
    // The clock is set to the day on which the database was made: expiring keys, idempotency keys and the ledger depend on it.
    vi.useFakeTimers({ toFake: ['Date'], now: made.at * 1000 })
    mkdirSync(join(folder.path, 'characters'))
    const card = { spec: 'chara_card_v2', spec_version: '2.0', data: { name: 'Mallow', description: 'Hidden.' } }
    writeFileSync(join(folder.path, 'characters/mallow.json'), JSON.stringify(card))
    old = await open(sql, folder.path)
    before = await rowsOf(old)
    // The first program that opens the database is a command.
    await (await openStores(readConfig(old.settings))).close()
    after = await rowsOf(old)
    service = await startService(readConfig(old.settings))
  })

  afterAll(async () => {
    await service?.close()
    await old?.close()
    folder.remove()
    vi.useRealTimers()
  })

  /** Sends a request with the key of this name. */
  function ask(key: string, path: string, json?: unknown, headers: Readonly<Record<string, string>> = {}) {
    const type = json === undefined ? {} : { 'content-type': 'application/json' }
    return fetch(service.address + path, {
      method: json === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${made.secrets[key]}`, ...type, ...headers },
      ...(json === undefined ? {} : { body: JSON.stringify(json) }),
    })
  }

  async function read(key: string, path: string): Promise<unknown> {
    const response = await ask(key, path)
    expect([path, response.status]).toEqual([path, 200])
    return response.json()
  }

  /** The scopes that a key of 0.1.0 has after the migration. */
  function scopesNow({ scopes, account }: { readonly scopes: readonly string[]; readonly account: string }) {
    return scopes.includes('admin') && account !== 'owner' ? tenantScopes : scopes
  }

  it('keeps its rows unchanged, except the scopes of keys and the tables that change with each start', () => {
    expect(Object.keys(before).length).toBeGreaterThan(9)
    for (const [table, rows] of Object.entries(before)) {
      const untouched = (row: Row): Row => (table === 'keys' ? { ...row, scopes: null } : row)
      const found = new Set((after[table] ?? []).map((row) => JSON.stringify(untouched(row))))
      const lost = rows.map((row) => JSON.stringify(untouched(row))).filter((row) => !found.has(row))
      expect([table, lost]).toEqual([table, []])
      // Later versions have more migrations and more counters.
      if (!['migrations', 'counters'].includes(table)) expect(after[table]).toHaveLength(rows.length)
    }
  })

  it('reports at the start each key that lost the scope admin', () => {
    const changed = made.keys.filter((key) => scopesNow(key) === tenantScopes)
    expect(changed.map(({ account }) => account).toSorted()).toEqual(['closed', 'greenhouse', 'greenhouse'])
    const told = service.bootstrap.notices.map((notice) =>
      /^The key (\S+) of the account "(\w+)"/.exec(notice)?.slice(1),
    )
    expect(told.toSorted()).toEqual(changed.map(({ prefix, account }) => [prefix, account]).toSorted())
    expect(service.bootstrap.warnings).toEqual([])
  })

  it('has its accounts and keys, with their names, expiries and limits', async () => {
    const stores = await openStores(readConfig(old.settings))
    const accounts = await stores.access.listAccounts()
    const keys = await stores.access.listKeys()
    await stores.close()
    expect(accounts).toMatchObject(made.accounts)
    const told = keys.map(({ account, lastUsed, ...key }) => ({ ...key, account: account.name, last_used: lastUsed }))
    for (const key of made.keys) {
      expect(told.find(({ prefix }) => prefix === key.prefix)).toMatchObject({ ...key, scopes: scopesNow(key) })
    }
    expect([accounts.length, keys.length]).toEqual([made.accounts.length, made.keys.length])
  })

  it.each([
    ['owner', '/metrics', 200],
    ['owner', '/keys', 200],
    ['owner', '/characters/Mallow?format=json', 200],
    ['reader', '/plants', 200],
    ['reader', '/models', 403],
    ['panel', '/keys', 200],
    ['panel', '/plants', 200],
    ['panel', '/models', 200],
    ['panel', '/metrics', 403],
    ['panel', '/characters/Mallow?format=json', 403],
    ['tablet', '/plants', 200],
    ['tablet', '/keys', 403],
    ['writer', '/models', 200],
    ['lasting', '/models', 200],
    ['expired', '/plants', 401],
    ['revoked', '/plants', 401],
    ['replaced', '/plants', 401],
    ['successor', '/plants', 200],
    ['leaving', '/plants', 200],
    ['following', '/plants', 200],
    ['gardener', '/plants', 200],
    ['closed', '/models', 403],
    ['gone', '/models', 401],
  ])('answers the key %s at %s with %i', async (key, path, status) => {
    const response = await ask(key, path)
    await response.arrayBuffer()
    expect(response.status).toBe(status)
  })

  it('lists the own plants of an account, and the plants that are shared with it', async () => {
    const own = [{ ...made.plants[1] }, { ...made.plants[0] }, { ...made.plants[2] }, { ...made.repeated }]
    const shown = own.map(({ id: _id, ...plant }) => plant)
    expect(await read('tablet', '/plants')).toEqual(shown)
    expect(await read('gardener', '/plants')).toEqual([{ name: 'Oak' }, shown[1], shown[2]])
    expect(await read('tablet', '/plants/-3')).toEqual(shown[0])
    expect(await read('owner', '/plants/7')).toEqual({ name: 'Oak' })
  })

  it('repeats the first answer to an Idempotency-Key, and creates no plant', async () => {
    const headers = { 'idempotency-key': 'once-and-again' }
    const again = await ask('tablet', '/plants', made.repeated, headers)
    expect([again.status, await again.json()]).toEqual([200, made.repeated])
    expect((await ask('tablet', '/plants', { name: 'Another' }, headers)).status).toBe(422)
    expect(await read('tablet', '/plants')).toHaveLength(4)
  })

  it('has every version of its cards, byte for byte', async () => {
    const { first, second } = made.versions
    expect(await read('writer', '/characters/Moss')).toMatchObject({ digest: second })
    for (const digest of [first, second]) {
      const path = `/characters/${encodeURIComponent(`Moss@${digest}`)}`
      expect(await read('writer', path)).toMatchObject({ digest })
      const chat = { model: 'understudy', character: `Moss@${digest}`, messages: [{ role: 'user', content: 'Hello' }] }
      const reply = await ask('writer', '/chat/completions', chat)
      await reply.text()
      expect([reply.status, reply.headers.get('x-character')]).toEqual([200, expect.stringContaining('Moss')])
    }
    expect(await read('writer', '/characters/Archive')).toMatchObject({ origin: 'account' })
    expect(await read('owner', `/characters/${encodeURIComponent('Ivy é')}`)).toMatchObject({ origin: 'account' })
    const used = await old.query('SELECT digest, bytes, used FROM character_use')
    for (const { source, digest } of after['character_versions'] ?? []) {
      // Existing versions count as used on the day of the migration. The service may have recorded later uses since.
      const use = used.find((row) => row['digest'] === digest)
      expect([Number(use?.['bytes']), Number(use?.['used']) > 0]).toEqual([String(source).length / 2, true])
      expect(
        createHash('sha256')
          .update(Buffer.from(String(source), 'hex'))
          .digest('hex'),
      ).toBe(digest)
    }
  })

  it('reports its chat requests and their usage', async () => {
    for (const [name, state] of [
      ['pinned', 'stop'],
      ['lasting', 'stop'],
      ['failed', 'internal_error'],
    ]) {
      expect(await read('writer', `/requests/${made.requests[name ?? '']}`)).toMatchObject({ state })
    }
    expect((await ask('writer', `/requests/${made.requests['gardener']}`)).status).toBe(404)
    // The chat requests of this test have another key.
    const used = await read('lasting', '/usage?by=key')
    expect(used).toMatchObject({ data: expect.arrayContaining(made.usage.filter(isOfLasting)) })
    expect(made.usage.filter(isOfLasting)).toHaveLength(1)
  })

  function isOfLasting(line: unknown): boolean {
    return JSON.stringify(line).includes(`"${made.secrets['lasting']?.slice(0, 7)}"`)
  }
})

/** The rows of the compared tables in the columns of 0.1.0; bytes as hex. */
async function rowsOf(old: Old): Promise<Readonly<Record<string, readonly Row[]>>> {
  const rows: Record<string, readonly Row[]> = {}
  for (const [table, columns] of Object.entries(columnsOf(old))) {
    rows[table] = (await old.query(`SELECT ${columns} FROM ${table}`)).map((row) =>
      Object.fromEntries(
        Object.entries(row).map(([name, value]) => [name, Buffer.isBuffer(value) ? value.toString('hex') : value]),
      ),
    )
  }
  return rows
}

/** The compared tables into which 0.1.0 wrote rows, each with its columns. */
function columnsOf({ settings }: Old): Readonly<Record<string, string>> {
  const file = settings['DATABASE_URL'] === undefined ? 'sqlite.sql' : 'postgres.sql'
  const text = readFileSync(join(fixture, file), 'utf8')
  const inserts = [...text.matchAll(/^INSERT INTO (\w+) \(([^)]*)\)/gm)]
  return Object.fromEntries(
    inserts.filter(([, table = '']) => !notCompared.has(table)).map(([, table = '', columns = '']) => [table, columns]),
  )
}

const common = { PORT: '0', LOG_LEVEL: 'silent' }

async function openSqlite(sql: string, folder: string): Promise<Old> {
  const path = join(folder, 'conservatory.db')
  const database = new Database(path)
  database.exec(sql)
  return {
    settings: { ...common, DATA_DIR: folder },
    query: async (text) => database.prepare<[], Row>(text).all(),
    close: async () => void database.close(),
  }
}

async function openPostgres(text: string, folder: string): Promise<Old> {
  const url = await newPostgresDatabase()
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  await sql.unsafe(text)
  return {
    settings: { ...common, DATA_DIR: folder, DATABASE_URL: url },
    query: async (statement) => await sql.unsafe<Row[]>(statement),
    close: () => sql.end(),
  }
}
