import { createHash } from 'node:crypto'
import { wholeEntry } from '../../audit/database-entries.ts'
import { StorageError } from '../../errors.ts'
import { counted } from '../../text.ts'
import { engineOf, placeForm } from './engine.ts'
import { type MovableDatabase, type Row, type Table, tables, type Value } from './tables.ts'

/** The rows of a table, and the sum of their SHA-256s in hex, which is equal on both engines in whatever order. */
export interface TableSum {
  readonly table: string
  readonly rows: number
  readonly checksum: string
}

/** Opens what a URL names: `sqlite:./path` or `postgres://…`. @throws StorageError when it cannot be used */
export async function openForMove(url: string, isSource: boolean): Promise<MovableDatabase> {
  const engine = engineOf(url)
  if (engine === 'sqlite') {
    const { openSqliteForMove } = await import('./sqlite.ts')
    return openSqliteForMove(url.slice('sqlite:'.length), isSource)
  }
  if (engine === 'postgres') {
    const { openPostgresForMove } = await import('./postgres.ts')
    return openPostgresForMove(url, isSource ? '--from' : '--to')
  }
  throw new StorageError(`A database to move is given as ${placeForm}.`)
}

/**
 * Moves all rows, or goes on where the same move ended, and compares both sides. Until that is done, no service starts
 * over the target.
 * @param tell hears how many rows of how many are there
 * @returns the checksums of the tables
 * @throws StorageError when the target holds something else, a service uses one side, or the sides differ at the end
 */
export async function move(
  from: MovableDatabase,
  to: MovableDatabase,
  tell: (done: number, all: number) => void,
): Promise<readonly TableSum[]> {
  await from.refuseServed()
  await to.refuseServed()
  if (await from.begun()) {
    throw new StorageError(`${from.place} has only a part of what is moved into it. Finish that move first.`)
  }
  const keys = await beginOrResume(from, to)
  let all = 0
  let done = 0
  for (const table of tables) {
    all += await from.count(table)
    done += await to.count(table)
  }
  for (const table of tables) {
    const last = keys.get(table.name)
    const start: Value[] | undefined = last === undefined ? undefined : JSON.parse(last)
    for await (const rows of batches(from, table, start)) {
      await to.write(table, rows, JSON.stringify(keyOf(table, rows.at(-1))))
      done += rows.length
      tell(done, all)
    }
  }
  const sums: TableSum[] = []
  for (const table of tables) {
    const [there, here] = await Promise.all([sumOf(from, table), sumOf(to, table)])
    if (there.rows !== here.rows || there.checksum !== here.checksum) {
      throw new StorageError(
        `The ${table.name} differ after the move: ${counted(there.rows, 'row')} in ${from.place}, ${here.rows} in ${to.place}. Somebody wrote meanwhile. Stop whoever writes, and start again with an empty database.`,
      )
    }
    sums.push(here)
  }
  // Whoever has begun to serve meanwhile writes what nobody compares.
  await from.refuseServed()
  await to.refuseServed()
  const entry = wholeEntry('database.migrated', { place: from.place }, { place: to.place, rows: all })
  await to.finish(await from.highestAccount(), entry)
  return sums
}

/** Begins a move, or finds where it ended: the last key of each table. @throws StorageError when the target holds something else */
async function beginOrResume(from: MovableDatabase, to: MovableDatabase): Promise<ReadonlyMap<string, string>> {
  const begun = await to.begun()
  if (begun?.source === from.place) return begun.keys
  if (begun) {
    throw new StorageError(
      `${to.place} has a part of what is moved into it from ${begun.source}. Finish that move, or name an empty database.`,
    )
  }
  for (const table of tables) {
    if ((await to.read(table, undefined)).length > 0) {
      throw new StorageError(`${to.place} holds ${table.name.replaceAll('_', ' ')} already. Name an empty database.`)
    }
  }
  await to.begin(from.place)
  return new Map()
}

/** The rows of a table, counted and hashed. */
export async function sumOf(database: MovableDatabase, table: Table): Promise<TableSum> {
  const columns = Object.keys(table.columns)
  const sum = new Uint32Array(8)
  let count = 0
  for await (const rows of batches(database, table)) {
    count += rows.length
    for (const row of rows) {
      const values = columns.map((column) => canonical(row[column]))
      const digest = createHash('sha256').update(JSON.stringify(values)).digest()
      for (let at = 0; at < sum.length; at++) sum[at] = (sum[at] ?? 0) + digest.readUInt32BE(at * 4)
    }
  }
  return { table: table.name, rows: count, checksum: Buffer.from(sum.buffer).toString('hex') }
}

async function* batches(
  database: MovableDatabase,
  table: Table,
  start?: readonly Value[],
): AsyncGenerator<readonly Row[]> {
  let after = start
  for (;;) {
    const rows = await database.read(table, after)
    if (rows.length === 0) return
    yield rows
    after = keyOf(table, rows.at(-1))
  }
}

function keyOf(table: Table, row: Row | undefined): Value[] {
  return table.key.map((column) => row?.[column] ?? null)
}

function canonical(value: Value | undefined): string | number | null {
  return value instanceof Uint8Array ? createHash('sha256').update(value).digest('hex') : (value ?? null)
}
