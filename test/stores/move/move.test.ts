import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import Database from 'better-sqlite3'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openDatabase } from '../../../src/storage/database.ts'
import { lockForServing } from '../../../src/storage/file-lock.ts'
import { move, openForMove } from '../../../src/stores/move/move.ts'
import { tables } from '../../../src/stores/move/tables.ts'
import { openPostgresStores } from '../../../src/stores/postgres.ts'
import { conservatory } from '../../support/command.ts'
import { compileCache, projectFolder } from '../../support/process.ts'
import { startTestService } from '../../support/service.ts'
import { newPostgresDatabase } from '../../support/shared-postgres.ts'

interface Way {
  readonly from: string
  readonly to: string
  /** The settings of a service over the target. */
  readonly settings: Readonly<Record<string, string>>
}

const folder = mkdtempSync(join(tmpdir(), 'conservatory-move-'))
const origin = join(folder, 'origin', 'conservatory.db')
beforeAll(async () => {
  const database = openDatabase(origin)
  database.exec(`
    INSERT INTO accounts (id, name, created) VALUES (1, 'one', 5), (2, 'zwei', 6), (9, 'gone', 7);
    DELETE FROM accounts WHERE id = 9;
    INSERT INTO keys (id, account, prefix, digest, scopes, created) VALUES ('k', 1, 'p', 'd', '[]', 5), ('Ä', 2, 'q', 'e', '[]', 5);
    UPDATE keys SET subject = 's', maker = 'm', maker_limits = '{}' WHERE id = 'k';
    INSERT INTO grants VALUES (1, 2, '', 5);
    INSERT INTO characters VALUES (1, 'Fern', 'fern', 'x', '{}', 1, 1), (1, 'a\\0b', 'a\\0b', 'y', '{"a":"\\u0000"}', 1, 1);
    INSERT INTO characters VALUES (2, 'n' || char(0) || 'l', 'n' || char(0) || 'l', 'z', '{}', 1, 1);
    INSERT INTO character_versions VALUES (1, 'Fern', 'x', x'00ff10', 1), (2, 'n' || char(0) || 'l', 'z', x'', 1);
    INSERT INTO character_use VALUES (1, 'Fern', 'x', 3, 1, NULL), (2, 'n' || char(0) || 'l', 'z', 0, 1, 86400);
    INSERT INTO uploads VALUES ('u', 0, 4, 2, 'n' || char(0) || 'l', 'z'), ('left', 9, 1, NULL, NULL, NULL);
    INSERT INTO card_pieces VALUES ('u', 0, x'00ff'), ('u', 1, x'0a5c'), ('left', 0, x'01');
    INSERT INTO idempotency_keys VALUES (1, 'i', 'r', 1, 'n', NULL, 3, 1);
    INSERT INTO requests VALUES ('r', 1, 'k', 'p', 'm' || char(0), NULL, 'Fern', 1, 0, 1, 1, 1, NULL, 3, 0, 'stop', 7, 1, '1/9', 'm');
    INSERT INTO usage_days VALUES (1, '1970-01-01', 'd', 'p', 'm' || char(0), NULL, 1, 1, 1, 0);
    INSERT INTO spend VALUES ('account:1', '2026-11-20', 4);
    INSERT INTO secrets VALUES ('cursors', 'cafe');
    WITH RECURSIVE n(i) AS (SELECT -5000 UNION ALL SELECT i + 1 FROM n WHERE i < 14999)
    INSERT INTO plants (account, id, name, tag) SELECT 1 + (i & 1), i, 'plant ' || i, CASE i % 3 WHEN 0 THEN 'Moos 🌿' END FROM n;
    INSERT INTO photos VALUES ('f', 2, 3, 0, 2, 1), ('left', 9, 1, 8, NULL, NULL);
    INSERT INTO plant_details (account, plant, species, notes, photo_type, photo_bytes, photo_digest)
      VALUES (2, 1, 'Monstera', 'n' || char(10), 'image/png', 3, 'sha256:d');
    INSERT INTO care_rules VALUES (2, 1, 'water', 7, '11-01', '02-28', NULL, '2026-11-29', 5, NULL, '2026-11-30');
    INSERT INTO care_logs VALUES (7, 2, 2, 1), (8, 2, NULL, NULL);
    INSERT INTO care_events VALUES (7, 'e', 5, 'moisture', 'wet', 41.5, '%'), (8, 'e', 5, 'water', NULL, NULL, NULL);
    INSERT INTO care_feeds VALUES (2, 'd', 1);
    INSERT INTO holdings VALUES (2, 2, 3);
    INSERT INTO kept_replies VALUES (2, '/plants/batch k', 'r', '7', 1);
    INSERT INTO photo_pieces VALUES ('f', 0, x'00ff'), ('f', 1, x'0a'), ('left', 0, x'01');
  `)
  database.close()
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

it('moves every table and column, except the tables of migrations and of the engine', () => {
  const database = new Database(origin, { readonly: true })
  const there = database
    .prepare<[], { table: string; column: string }>(`
      SELECT tables.name AS "table", columns.name AS "column"
      FROM sqlite_schema AS tables, pragma_table_info(tables.name) AS columns
      WHERE tables.type = 'table' AND tables.name NOT IN ('migrations', 'sqlite_sequence')`)
    .all()
    .map(({ table, column }) => `${table}.${column}`)
  database.close()
  const moved = tables.flatMap(({ name, columns }) => Object.keys(columns).map((column) => `${name}.${column}`))
  expect(moved.toSorted()).toStrictEqual(there.toSorted())
})

it('moves all rows there and back with equal checksums, and continues an interrupted move', async () => {
  const url = await newPostgresDatabase()
  const back = join(folder, 'back', 'conservatory.db')
  const from = await openForMove(`sqlite:${origin}`, true)
  const to = await openForMove(url, false)
  const cut = move(from, to, (done) => {
    if (done > 8000) throw new Error('cut')
  })
  await expect(cut).rejects.toThrow('cut')
  const told: number[] = []
  const there = await move(from, to, (done) => told.push(done))
  expect(told[0]).toBeGreaterThan(8000)
  expect(there.find(({ table }) => table === 'plants')?.rows).toBe(20_000)
  const home = await openForMove(`sqlite:${back}`, false)
  expect((await move(to, home, () => {})).filter(isNoTrail)).toStrictEqual(there.filter(isNoTrail))
  expect([await to.highestAccount(), await home.highestAccount()]).toStrictEqual([9, 9])
  await expect(move(from, to, () => {})).rejects.toThrow('holds accounts already')
  for (const database of [from, to, home]) await database.close()
  expect(rowsOf(back)).toStrictEqual(rowsOf(origin))
  const stores = await openPostgresStores(url)
  const names = (await stores.characters.list(1, '', 10)).map(({ name }) => name)
  expect(names).toStrictEqual(['Fern', 'a\\0b'])
  expect(await stores.characters.find(2, 'n\0l', 'exact')).toMatchObject({ digest: 'z' })
  await stores.close()
}, 30_000)

it('after a kill halfway, no program may use the target, and the same command completes the move', async () => {
  const url = await newPostgresDatabase()
  const home = join(folder, 'home')
  const ways: readonly Way[] = [
    { from: `sqlite:${origin}`, to: url, settings: { DATABASE_URL: url } },
    { from: url, to: `sqlite:${join(home, 'conservatory.db')}`, settings: { DATA_DIR: home } },
  ]
  const ends: string[] = []
  for (const { from, to, settings } of ways) {
    const args = ['migrate', '--from', from, '--to', to]
    const env = { ...process.env, ...compileCache }
    const killed = spawn(process.execPath, ['src/main.ts', ...args], { cwd: projectFolder, env, stdio: 'pipe' })
    const exited = once(killed, 'exit')
    const [first] = await once(killed.stderr, 'data')
    killed.kill('SIGKILL')
    expect(await exited).toStrictEqual([null, 'SIGKILL'])
    for (const command of ['serve', 'accounts list']) {
      const refused = await conservatory(command.split(' '), {
        PORT: '0',
        LOG_LEVEL: 'fatal',
        DATA_DIR: join(folder, 'else'),
        ...settings,
      })
      expect(refused).toMatchObject({ code: 1, stdout: '' })
      expect(refused.stderr).toMatch(/^The database .* Run the same `conservatory migrate` command again until .*\n$/)
    }
    const ended = await conservatory(args, {})
    expect(ended).toMatchObject({ code: 0, stdout: '' })
    const [moving, equal = ''] = ended.stderr.split('Everything is moved, and equal on both sides:\n')
    expect(rowsTold(moving)).toBeGreaterThan(rowsTold(first))
    ends.push(equal.replace(/^ {2}audit_records: .*\n/m, ''))
    const usable = await conservatory(['accounts', 'list', '--json'], { DATA_DIR: join(folder, 'else'), ...settings })
    expect(usable).toMatchObject({ code: 0, stdout: expect.stringContaining('zwei') })
  }
  expect(ends[1]).toBe(ends[0])
  expect(rowsOf(join(home, 'conservatory.db'))).toStrictEqual(rowsOf(origin))
}, 60_000)

it('refuses a PostgreSQL database, as source or as target, while a replica serves it', async () => {
  const url = await newPostgresDatabase()
  const service = await startTestService({ DATABASE_URL: url })
  const file = `sqlite:${join(folder, 'empty', 'conservatory.db')}`
  const served = 'is served by 1 replica. Stop all of them'
  await expect(moveOf(url, file)).rejects.toThrow(served)
  await expect(moveOf(file, url)).rejects.toThrow(served)
  await service.close()
  expect((await moveOf(url, file)).find(({ table }) => table === 'accounts')?.rows).toBe(1)
})

it('detects writes to a PostgreSQL source during the move, and locks a SQLite source against writes', async () => {
  const url = await newPostgresDatabase()
  const other = new Database(origin, { timeout: 0 })
  const rename = other.prepare("UPDATE accounts SET name = 'eins' WHERE id = 1")
  const codes: unknown[] = []
  const tryToWrite = () => {
    try {
      rename.run()
    } catch (error) {
      codes.push(error instanceof Database.SqliteError && error.code)
    }
  }
  const sums = await moveOf(`sqlite:${origin}`, url, tryToWrite)
  expect(sums.length).toBeGreaterThan(5)
  expect(codes.length).toBeGreaterThan(5)
  expect(new Set(codes)).toStrictEqual(new Set(['SQLITE_BUSY']))
  other.close()

  const stores = await openPostgresStores(url)
  let change: Promise<unknown> | undefined
  const writeOnce = () => {
    change ??= stores.access.suspendAccount('one')
  }
  const target = `sqlite:${join(folder, 'other', 'conservatory.db')}`
  const told = /^The accounts differ after the move: .* Another program wrote during the move\. /
  await expect(moveOf(url, target, writeOnce)).rejects.toThrow(told)
  await change
  await stores.close()
})

it('reports a host that cannot be reached in one line, without the password', async () => {
  const ended = await conservatory(
    ['migrate', '--from', `sqlite:${origin}`, '--to', 'postgres://me:secret-word@127.0.0.1:1/plants'],
    {},
  )
  expect(ended.code).toBe(1)
  expect(ended.stderr).toMatch(
    /^The database at 127\.0\.0\.1:1 refuses the connection: nothing listens there\. .* host and port in --to\.\n$/,
  )
  expect(ended.stderr).not.toContain('secret-word')
}, 20_000)

it('refuses a source that a service uses', async () => {
  const lock = lockForServing(dirname(origin))
  await expect(openForMove(`sqlite:${origin}`, true)).rejects.toThrow('Another service uses')
  lock.release()
})

async function moveOf(from: string, to: string, tell = () => {}) {
  const source = await openForMove(from, true)
  const target = await openForMove(to, false)
  try {
    return await move(source, target, tell)
  } finally {
    await target.close()
    await source.close()
  }
}

/** False for the audit trail, because each move adds a record to it. */
function isNoTrail({ table }: { readonly table: string }): boolean {
  return table !== 'audit_records'
}

/** The number of moved rows in the first line of progress. */
function rowsTold(text: unknown): number {
  return Number(/^moving: (\d+) of \d+ rows$/m.exec(String(text))?.[1])
}

/** All moved rows except audit records, as JSON. The text "m\0" is replaced, because PostgreSQL cannot store U+0000. */
function rowsOf(file: string): readonly string[] {
  const database = new Database(file, { readonly: true })
  const rows = tables
    .filter(({ name }) => isNoTrail({ table: name }))
    .flatMap(({ name, columns, key }) =>
      database
        .prepare(`SELECT ${Object.keys(columns)} FROM ${name} ORDER BY ${key}`)
        .all()
        .map((row) => `${name} ${JSON.stringify(row)}`.replace('"m\\u0000"', '"m\uFFFD"')),
    )
  database.close()
  return rows
}
