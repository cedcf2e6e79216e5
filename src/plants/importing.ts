import { AccessError, type Account } from '../access/access.ts'
import { readAccountFile, readLines } from './account-file.ts'
import type { Belonging } from './belongings.ts'
import type { ImportSource } from './input-file.ts'
import { inBatches, Pace } from './pace.ts'
import type { PortablePlant } from './rows.ts'
import { type ImportKey, type PlantTransfers, TakenId } from './transfers.ts'

/** The summary of a file after all its lines have been checked. */
interface FileSummary {
  readonly digest: string
  readonly plants: number
  /** The number of all lines, without the header. */
  readonly lines: number
  /** The plants with the lowest and the highest id; undefined for a file without plants. */
  readonly lowest: PortablePlant | undefined
  readonly highest: PortablePlant | undefined
  /** Whether each id is higher than the id before, as in the output of `accounts export`. Then no id is repeated. */
  readonly isAscending: boolean
}

/** The result of an import. */
export interface Imported {
  /** The number of plants in the file. */
  readonly plants: number
  /** How many plants earlier runs had imported; all plants if the import was complete. */
  readonly before: number
}

/**
 * Adds the plants of a file to an account: first checks the whole file, then writes in batches. After an interruption, a run
 * with the same file continues.
 * @throws AccessError for a fault of the file, an id that is taken, and an import that is being undone. In these cases nothing
 *   was written, unless another program took the id, or changed the file, during the import
 */
export async function importFile(transfers: PlantTransfers, account: Account, file: ImportSource): Promise<Imported> {
  const summary = await check(file)
  if (!summary.isAscending) await refuseRepeated(file)
  const { digest, plants, lines, lowest, highest } = summary
  const key = { account: account.id, digest }
  const known = await transfers.findImport(key)
  if (known?.isUndoing) {
    throw new AccessError('This import is being undone. Finish the undo first, with the same command and --undo.')
  }
  let before = known?.done ?? 0
  if (!known || known.done === lines) {
    const mayBeTaken = lowest && highest && (await transfers.hasIdBetween(account.id, lowest.id, highest.id))
    if (mayBeTaken && (await isThere(transfers, account.id, file, known !== undefined)))
      return { plants, before: plants }
    await beginImport(transfers, key, summary)
    before = 0
  }
  try {
    await write(transfers, key, file, summary, before)
  } catch (error) {
    throw error instanceof TakenId ? await takenMeanwhile(transfers, key, file, error) : error
  }
  return { plants, before: Math.min(before, plants) }
}

/**
 * Undoes an import: removes the plants that the import added and that have not changed since.
 * @returns how many plants were removed
 * @throws AccessError for a fault of the file, and for a file that is not imported into the account
 */
export async function undoImport(transfers: PlantTransfers, account: Account, file: ImportSource): Promise<number> {
  const { plants: count } = await check(file)
  const key = { account: account.id, digest: file.digest }
  const { done, highest } = await transfers.beginUndo(key, count)
  const pace = new Pace(transfers)
  let removed = 0
  let at = 0
  for await (const plants of inBatches(readAccountFile(file.bytes()), pace)) {
    const begin = at
    const added = plants.filter(({ id }, index) => begin + index < done || id === highest)
    if (added.length > 0) {
      removed += await pace.take(added.length, () => transfers.removePlants(account.id, added))
    }
    at += plants.length
  }
  await transfers.endUndo(key)
  return removed
}

/** @throws AccessError for the first fault of the file */
async function check(file: ImportSource): Promise<FileSummary> {
  let plants = 0
  let belongings = 0
  let lowest: PortablePlant | undefined
  let highest: PortablePlant | undefined
  let isAscending = true
  for await (const some of readLines(file.bytes())) {
    plants += some.plants.length
    belongings += some.belongings.length
    for (const plant of some.plants) {
      if (highest && plant.id <= highest.id) isAscending = false
      if (!highest || plant.id > highest.id) highest = plant
      if (!lowest || plant.id < lowest.id) lowest = plant
    }
  }
  return { digest: file.digest, plants, lines: plants + belongings, lowest, highest, isAscending }
}

/**
 * Refuses a file with a repeated id. The line of each id is in a temporary SQLite file and not in memory, because an import may
 * have any number of plants.
 * @throws AccessError when two plants of the file have the same id
 */
async function refuseRepeated(file: ImportSource): Promise<void> {
  const { default: Database } = await import('better-sqlite3')
  const lines = new Database('')
  lines.exec(
    'PRAGMA journal_mode = OFF; CREATE TABLE lines (id INTEGER PRIMARY KEY, at INTEGER NOT NULL) STRICT; BEGIN',
  )
  const insert = lines.prepare<[number, number]>('INSERT INTO lines VALUES (?, ?) ON CONFLICT DO NOTHING')
  const find = lines.prepare<[number], number>('SELECT at FROM lines WHERE id = ?').pluck()
  try {
    let index = 0
    for await (const some of readAccountFile(file.bytes())) {
      for (const { id } of some) {
        const at = index++
        if (insert.run(id, at).changes > 0) continue
        const first = file.placeOf(find.get(id) ?? 0).toLowerCase()
        throw new AccessError(`${takenSentence(file.placeOf(at), id)}, on ${first}. Nothing was imported.`)
      }
    }
  } finally {
    lines.close()
  }
}

/**
 * Compares the plants of a file with the account's plants that have the same ids.
 * @param wasImported whether the same file was imported before
 * @returns whether the account has all plants of the file from that import
 * @throws AccessError that names the line of the first id that is taken
 */
async function isThere(
  transfers: PlantTransfers,
  account: number,
  file: ImportSource,
  wasImported: boolean,
): Promise<boolean> {
  let index = 0
  let equal = 0
  let taken: string | undefined
  for await (const some of readAccountFile(file.bytes())) {
    const found = new Map((await transfers.findByIds(account, some)).map((plant) => [plant.id, plant]))
    for (const [at, { id, name, tag }] of some.entries()) {
      const existing = found.get(id)
      if (!existing) continue
      taken ??= takenSentence(file.placeOf(index + at), id)
      if (existing.name === name && existing.tag === tag) equal++
    }
    index += some.length
    if (taken !== undefined && !(wasImported && equal === index))
      throw new AccessError(`${taken}. Nothing was imported.`)
  }
  return equal === index
}

/** Records the import, and adds the plant with the highest id. @throws AccessError if that id is taken */
async function beginImport(
  transfers: PlantTransfers,
  key: ImportKey,
  { plants, lines, highest }: FileSummary,
): Promise<void> {
  try {
    await transfers.beginImport(key, plants, highest, lines)
  } catch (error) {
    if (!(error instanceof TakenId)) throw error
    throw new AccessError(`There is a plant with the id ${error.id} already. Nothing was imported.`)
  }
}

/** Writes the lines of a file, except the first `before` lines, which an earlier run has written. */
async function write(
  transfers: PlantTransfers,
  key: ImportKey,
  file: ImportSource,
  { plants, lines }: FileSummary,
  before: number,
): Promise<void> {
  const pace = new Pace(transfers)
  await writeAll(inBatches(readAccountFile(file.bytes()), pace), pace, 0, before, (at, some) =>
    transfers.addPlants(key, at, some, at + some.length === lines),
  )
  await writeAll(belongingsOf(file, pace), pace, plants, before, (at, some) =>
    transfers.addBelongings(key, at, some, at + some.length === lines),
  )
  if (file.digest === key.digest) return
  throw new AccessError('The file was changed during the import. Restore the file, then undo the import with --undo.')
}

/** Batches of what belongs to the plants of a file. A piece of a photo is a batch of its own, because it is large. */
async function* belongingsOf(file: ImportSource, pace: Pace): AsyncGenerator<readonly Belonging[]> {
  let waiting: Belonging[] = []
  for await (const { belongings } of readLines(file.bytes())) {
    for (const each of belongings) {
      const isLarge = each.object === 'photo'
      if (waiting.length > 0 && (isLarge || waiting.length >= pace.size)) {
        yield waiting
        waiting = []
      }
      if (isLarge) yield [each]
      else waiting.push(each)
    }
  }
  if (waiting.length > 0) yield waiting
}

/**
 * Writes batches of lines.
 * @param first the number of lines of the file before these
 * @param before the number of lines of the file that are written
 */
async function writeAll<T>(
  batches: AsyncIterable<readonly T[]>,
  pace: Pace,
  first: number,
  before: number,
  add: (at: number, some: readonly T[]) => Promise<void>,
): Promise<void> {
  let at = first
  let writing = Promise.resolve()
  for await (const some of batches) {
    const rest = some.slice(Math.max(0, before - at))
    const begin = at + some.length - rest.length
    at += some.length
    // One batch is written while the next one is read.
    await writing
    if (rest.length === 0) continue
    writing = pace.take(rest.length, () => add(begin, rest))
    // The next `await writing` throws the error of this batch.
    writing.catch(() => undefined)
  }
  await writing
}

/** The refusal of an id that another plant took during the import. */
async function takenMeanwhile(
  transfers: PlantTransfers,
  key: ImportKey,
  file: ImportSource,
  { id }: TakenId,
): Promise<AccessError> {
  const done = (await transfers.findImport(key))?.done ?? 0
  let at = 0
  for await (const some of readAccountFile(file.bytes())) {
    const index = some.findIndex((plant) => plant.id === id)
    if (index >= 0) {
      return new AccessError(
        `${takenSentence(file.placeOf(at + index), id)}, added after the import began. The first ${done} plants of the file are imported. Remove that plant and run this again, or undo the import with --undo.`,
      )
    }
    at += some.length
  }
  return new AccessError(`There is a plant with the id ${id} already.`)
}

function takenSentence(place: string, id: number): string {
  return `${place}: there is a plant with the id ${id} already`
}
