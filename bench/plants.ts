import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { Cursors, cursorKeyName } from '../src/plants/cursor.ts'
import { benchKey, type Measured, serviceCommand, startPackage, startService } from './processes.ts'

/** The highest id of the seeded plants, which does not depend on the number of plants. */
export const highestId = 1_000_000

/** The key of cursors in seeded databases. */
const cursorKey = Buffer.alloc(32, 1)
const cursors = new Cursors(cursorKey)

/** Folders that are removed after a benchmark. */
export class Folders {
  readonly #paths: string[] = []

  make(): string {
    const path = mkdtempSync(join(tmpdir(), 'conservatory-bench-'))
    this.#paths.push(path)
    return path
  }

  copy(folder: string): string {
    const path = this.make()
    cpSync(folder, path, { recursive: true })
    return path
  }

  remove(): void {
    for (const path of this.#paths) rmSync(path, { recursive: true, force: true })
  }
}

/**
 * Makes a data folder whose owner has this number of plants, all of the same length. Their ids are spread evenly up to a million.
 * @param command starts the service that makes the schema
 */
export async function seededFolder(folders: Folders, plants: number, command = serviceCommand): Promise<string> {
  const folder = folders.make()
  // The service makes the schema and the account. Both may be in the write-ahead log, which SQLite reads with the file.
  await (await startService('seeding', { DATA_DIR: folder }, command)).stop()
  const database = new Database(databasePath(folder))
  database
    .prepare(
      `INSERT INTO plants (account, id, name, tag)
       WITH RECURSIVE ids (id) AS (SELECT :step UNION ALL SELECT id + :step FROM ids WHERE id < :highest)
       SELECT accounts.id, ids.id, printf('Plant %07d', ids.id), printf('tag %02d', ids.id / :step % 50)
       FROM accounts, ids`,
    )
    .run({ step: highestId / plants, highest: highestId })
  // Versions up to 0.2.0 have no such table, and refuse the cursors of random places.
  if (database.prepare("SELECT 1 FROM sqlite_master WHERE name = 'secrets'").get() !== undefined) {
    database.prepare('INSERT OR REPLACE INTO secrets VALUES (?, ?)').run(cursorKeyName, cursorKey.toString('hex'))
  }
  database.close()
  return folder
}

/** The database file of a data folder. */
export function databasePath(folder: string): string {
  return join(folder, 'conservatory.db')
}

/** Starts json-server with this number of plants. */
export function startJsonServer(folders: Folders, plants: number): Promise<Measured> {
  const step = highestId / plants
  const rows = Array.from({ length: plants }, (_none, index) => ({
    id: (index + 1) * step,
    name: `Plant ${String((index + 1) * step).padStart(7, '0')}`,
    tag: `tag ${String((index + 1) % 50).padStart(2, '0')}`,
  }))
  const file = join(folders.make(), 'db.json')
  writeFileSync(file, JSON.stringify({ plants: rows }))
  return startPackage('json-server', 'json-server/lib/cli/bin.js', (port) => [
    '--quiet',
    '--host',
    '127.0.0.1',
    '--port',
    String(port),
    file,
  ])
}

/** Lua that makes every tenth request a POST of a small plant. */
export const everyTenthWrites = `
local count = 0
local read, write
init = function()
  read = wrk.format()
  wrk.headers["Content-Type"] = "application/json"
  write = wrk.format("POST", "/plants", nil, '{"name":"Monstera","tag":"aroid"}')
end
request = function()
  count = count + 1
  return count % 10 == 0 and write or read
end`

/**
 * Lua that requests pages of 100 plants after random ids. An id is any number up to 890,000, with a plant or without. So a
 * database of 1,000 plants gets as many different requests as a database of 1,000,000, and a full page follows every id. A run
 * draws 60,000 new ids, whose pages take some four times the page cache.
 */
export function randomPlaces(): string {
  const places = Array.from({ length: 60_000 }, randomPlace)
  return `
local places = {}
for place in string.gmatch("${places.join(' ')}", "%S+") do places[#places + 1] = place end
local count = 0
request = function()
  count = count + 1
  return wrk.format(nil, "/plants?limit=100&after=" .. places[count % #places + 1])
end`
}

/** The body of the reply to a GET. @throws Error for any status but a success */
export async function bytesOf(url: string): Promise<Buffer> {
  const reply = await fetch(url, { headers: { authorization: `Bearer ${benchKey}` } })
  if (!reply.ok) throw new Error(`${url} answered ${reply.status}: ${await reply.text()}`)
  return Buffer.from(await reply.arrayBuffer())
}

/** A random value for the parameter `after`. A full page of 100 plants follows it. */
export function randomPlace(): string {
  return cursors.write({ account: 1, id: Math.floor(Math.random() * highestId * 0.89) })
}
