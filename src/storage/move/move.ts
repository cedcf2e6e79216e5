import { createHash } from 'node:crypto'
import { StorageError } from '../folder.ts'
import { type House, type Row, type Table, tables, type Value } from './tables.ts'

/** The rows of a table, and a SHA-256 over them in key order, equal on both engines. */
export interface Sum {
  readonly table: string
  readonly rows: number
  readonly sha256: string
}

/** Opens what a URL names: `sqlite:./path` or `postgres://…`. @throws StorageError when it cannot be used */
export async function openHouse(url: string, isSource: boolean): Promise<House> {
  if (url.startsWith('sqlite:')) {
    const { openSqliteHouse } = await import('./sqlite.ts')
    return openSqliteHouse(url.slice('sqlite:'.length), isSource)
  }
  if (/^postgres(ql)?:\/\//.test(url)) {
    const { openPostgresHouse } = await import('./postgres.ts')
    return openPostgresHouse(url)
  }
  throw new StorageError('A database to move is given as sqlite:./path or postgres://host/name.')
}

/**
 * Moves all rows, or goes on where the same move ended, and compares both sides.
 * @param tell hears how many rows of how many are there
 * @returns the checksums of the tables
 * @throws StorageError when the target holds something else, or the sides differ at the end
 */
export async function move(from: House, to: House, tell: (done: number, all: number) => void): Promise<readonly Sum[]> {
  const begun = await to.begun()
  if (begun && begun.source !== from.place) {
    throw new StorageError(
      `${to.place} holds a move from ${begun.source} that is not done. Finish it, or name another.`,
    )
  }
  if (!begun) {
    for (const table of tables) {
      if ((await to.count(table)) > 0) {
        throw new StorageError(`${to.place} holds ${table.name.replaceAll('_', ' ')} already. Name an empty database.`)
      }
    }
    await to.begin(from.place)
  }
  let all = 0
  let done = 0
  for (const table of tables) {
    all += await from.count(table)
    done += await to.count(table)
  }
  for (const table of tables) {
    const last = begun?.keys.get(table.name)
    const start: Value[] | undefined = last === undefined ? undefined : JSON.parse(last)
    for await (const rows of batches(from, table, start)) {
      await to.write(table, rows, JSON.stringify(keyOf(table, rows.at(-1))))
      done += rows.length
      tell(done, all)
    }
  }
  const sums: Sum[] = []
  for (const table of tables) {
    const [there, here] = [await sumOf(from, table), await sumOf(to, table)]
    if (there.rows !== here.rows || there.sha256 !== here.sha256) {
      throw new StorageError(
        `The ${table.name} differ after the move: ${there.rows} rows in ${from.place}, ${here.rows} in ${to.place}. Did somebody write meanwhile? Start again with an empty database.`,
      )
    }
    sums.push(here)
  }
  await to.finish(await from.highestAccount())
  return sums
}

/** The rows of a table, counted and hashed. */
export async function sumOf(house: House, table: Table): Promise<Sum> {
  const hash = createHash('sha256')
  let count = 0
  const columns = Object.keys(table.columns)
  for await (const rows of batches(house, table)) {
    count += rows.length
    for (const row of rows) hash.update(`${JSON.stringify(columns.map((column) => canonical(row[column])))}\n`)
  }
  return { table: table.name, rows: count, sha256: hash.digest('hex') }
}

async function* batches(house: House, table: Table, start?: readonly Value[]): AsyncGenerator<readonly Row[]> {
  let after = start
  for (;;) {
    const rows = await house.read(table, after)
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
