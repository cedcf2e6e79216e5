import { createHash } from 'node:crypto'
import { globalEntry } from '../../audit/record.ts'
import { StorageError } from '../../errors.ts'
import type { ProgressOutput } from '../../print.ts'
import { counted } from '../../text.ts'
import { engineOf, placeForm } from './engine.ts'
import { type MovableDatabase, type Row, type Table, tables, type Value } from './tables.ts'

/**
 * The number of rows of a table, and the sum of the rows' SHA-256 digests in hex. Each of the eight 32-bit words of the digests
 * is summed alone. The sum does not depend on the engine and the order of the rows.
 */
export interface TableSum {
  readonly table: string
  readonly rows: number
  readonly checksum: string
}

/** Moves a database to another URL, and shows the progress: a bar on a terminal, otherwise a line for each tenth of the rows. */
export async function runMove(from: string, to: string, output: ProgressOutput): Promise<void> {
  const source = await openForMove(from, true)
  try {
    const target = await openForMove(to, false)
    try {
      let shown = 0
      const sums = await move(source, target, (done, all) => {
        const tenth = Math.floor((done / Math.max(all, 1)) * 10)
        const text = `moving: ${done} of ${counted(all, 'row')}`
        if (output.isTTY) output.write(`\r[${'#'.repeat(tenth).padEnd(10, '.')}] ${text}`)
        else if (tenth > shown) output.write(`${text}\n`)
        shown = tenth
      })
      if (output.isTTY) output.write('\n')
      const rows = sums.map(
        ({ table, rows, checksum }) => `  ${table}: ${counted(rows, 'row')}, checksum ${checksum.slice(0, 16)}\n`,
      )
      output.write(`Everything is moved, and equal on both sides:\n${rows.join('')}`)
    } finally {
      await target.close()
    }
  } finally {
    await source.close()
  }
}

/** Opens the database of a URL: `sqlite:./path` or `postgres://…`. @throws StorageError when the database cannot be used */
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
 * Moves all rows, or continues an unfinished move, and compares both sides. Until the move is complete, a service refuses to
 * start with the target as its database.
 * @param onProgress gets, after each batch, the number of moved rows and the number of all rows
 * @returns the checksums of the tables
 * @throws StorageError when the target has other rows, a service uses one side, or the sides differ at the end
 */
export async function move(
  from: MovableDatabase,
  to: MovableDatabase,
  onProgress: (done: number, all: number) => void,
): Promise<readonly TableSum[]> {
  await from.refuseServed()
  await to.refuseServed()
  if (await from.unfinishedMove()) {
    throw new StorageError(`The move into ${from.place} is not complete. Finish that move first.`)
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
      onProgress(done, all)
    }
  }
  const sums: TableSum[] = []
  for (const table of tables) {
    const [source, target] = await Promise.all([sumOf(from, table), sumOf(to, table)])
    if (source.rows !== target.rows || source.checksum !== target.checksum) {
      throw new StorageError(
        `The ${table.name} differ after the move: ${counted(source.rows, 'row')} in ${from.place}, ${target.rows} in ${to.place}. Another program wrote during the move. Stop all writers, and start again with an empty database.`,
      )
    }
    sums.push(target)
  }
  // A service that started during the move may have written rows that were not compared.
  await from.refuseServed()
  await to.refuseServed()
  const entry = globalEntry('database.migrated', { place: from.place }, { place: to.place, rows: all })
  await to.finish(await from.highestAccount(), entry)
  return sums
}

/** Begins a move, or returns the last moved key of each table. @throws StorageError when the target has other rows */
async function beginOrResume(from: MovableDatabase, to: MovableDatabase): Promise<ReadonlyMap<string, string>> {
  const unfinished = await to.unfinishedMove()
  if (unfinished?.source === from.place) return unfinished.keys
  if (unfinished) {
    throw new StorageError(
      `The move from ${unfinished.source} into ${to.place} is not complete. Finish that move, or name an empty database.`,
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

/** Counts and hashes the rows of a table. */
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
