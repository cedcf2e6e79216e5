import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openDatabase } from '../../src/storage/database.ts'
import { move, openHouse } from '../../src/storage/move/move.ts'
import { holdForServing } from '../../src/storage/serve-lock.ts'
import { conservatory } from '../support/command.ts'
import { type PostgresServer, startPostgres } from '../support/postgres.ts'

let server: PostgresServer
const folder = mkdtempSync(join(tmpdir(), 'conservatory-move-'))
const origin = join(folder, 'origin', 'conservatory.db')
beforeAll(async () => {
  server = await startPostgres()
  const database = openDatabase(origin)
  database.exec(`
    INSERT INTO accounts (id, name, created) VALUES (1, 'one', 5), (2, 'zwei', 6), (9, 'gone', 7);
    DELETE FROM accounts WHERE id = 9;
    INSERT INTO keys (id, account, prefix, digest, scopes, created) VALUES ('k', 1, 'p', 'd', '[]', 5), ('Ä', 2, 'q', 'e', '[]', 5);
    INSERT INTO grants VALUES (1, 2, '', 5);
    INSERT INTO characters VALUES (1, 'Fern', 'fern', 'x', '{}', 1, 1);
    INSERT INTO character_versions VALUES (1, 'Fern', 'x', x'00ff10', 1);
    INSERT INTO idempotency_keys VALUES (1, 'i', 'r', 1, 'n', NULL, 3);
    INSERT INTO requests VALUES ('r', 1, 'k', 'p', 'm', NULL, 'Fern', 1, 0, 1, 1, 1, NULL, 3, 0, 'stop');
    INSERT INTO spend VALUES ('account:1', '2026-11-20', 4);
    WITH RECURSIVE n(i) AS (SELECT -5000 UNION ALL SELECT i + 1 FROM n WHERE i < 14999)
    INSERT INTO plants SELECT 1 + (i & 1), i, 'plant ' || i, CASE i % 3 WHEN 0 THEN 'Moos 🌿' END FROM n;
  `)
  database.close()
})
afterAll(async () => {
  await server.stop()
  rmSync(folder, { recursive: true, force: true })
})

it('moves everything there and back with equal checksums, and goes on where it was cut', async () => {
  const url = await server.createDatabase()
  const from = await openHouse(`sqlite:${origin}`, true)
  const to = await openHouse(url, false)
  const cut = move(from, to, (done) => {
    if (done > 8000) throw new Error('cut')
  })
  await expect(cut).rejects.toThrow('cut')
  const told: number[] = []
  const there = await move(from, to, (done) => told.push(done))
  expect(told[0]).toBeGreaterThan(8000)
  expect(there.find(({ table }) => table === 'plants')?.rows).toBe(20_000)
  const home = await openHouse(`sqlite:${join(folder, 'back', 'conservatory.db')}`, false)
  expect(await move(to, home, () => {})).toStrictEqual(there)
  expect([await to.highestAccount(), await home.highestAccount()]).toStrictEqual([9, 9])
  await expect(move(from, to, () => {})).rejects.toThrow('holds accounts already')
  for (const house of [from, to, home]) await house.close()
}, 30_000)

it('says in one line which host does not answer, without the password', async () => {
  const ended = await conservatory(
    ['migrate', '--from', `sqlite:${origin}`, '--to', 'postgres://me:secret-word@127.0.0.1:1/plants'],
    {},
  )
  expect(ended.code).toBe(1)
  expect(ended.stderr).toMatch(/^The database at 127\.0\.0\.1:1 cannot be used: .*\n$/)
  expect(ended.stderr).not.toContain('secret-word')
}, 20_000)

it('refuses a source that a service uses', async () => {
  const lock = holdForServing(dirname(origin))
  await expect(openHouse(`sqlite:${origin}`, true)).rejects.toThrow('Another service uses')
  lock.release()
})
