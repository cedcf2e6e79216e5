import { AccessError, type Account } from '../access/access.ts'
import { lineOf, readAccountFile } from './account-file.ts'
import type { InputFile } from './input-file.ts'
import { inBatches, Pace } from './pace.ts'
import { type PortablePlant, TakenId } from './portable.ts'
import type { ImportKey, PlantTransfers } from './transfers.ts'

/** What a file is, once every line of it is checked. */
interface Facts {
  readonly digest: string
  readonly plants: number
  /** Those with the lowest id and with the highest; undefined for a file without plants. */
  readonly lowest: PortablePlant | undefined
  readonly highest: PortablePlant | undefined
  /** Whether each id is higher than the one before, as in what `accounts export` prints: then none is there twice. */
  readonly isAscending: boolean
}

/** What an import came to. */
export interface Imported {
  /** How many plants the file has. */
  readonly plants: number
  /** How many of them were there before this run; all of them where the whole import was. */
  readonly before: number
}

/**
 * Adds the plants of a file to an account: checks the whole file first, and writes in batches then. Cut off at any moment, the
 * same file goes on where it was.
 * @throws AccessError for a fault of the file, an id that is taken, and an import that is being taken back; nothing was written
 *   then, but where an id was taken only while the import was under way
 */
export async function importFile(transfers: PlantTransfers, account: Account, file: InputFile): Promise<Imported> {
  const facts = await check(file)
  if (!facts.isAscending) await refuseRepeated(file)
  const { digest, plants, lowest, highest } = facts
  const key = { account: account.id, digest }
  const known = await transfers.findImport(key)
  if (known?.isUndoing) {
    throw new AccessError('This import is being taken back. Finish that first, with the same command and --undo.')
  }
  let before = known?.done ?? 0
  if (!known || known.done === plants) {
    const mayBeTaken = lowest && highest && (await transfers.hasIdBetween(account.id, lowest.id, highest.id))
    if (mayBeTaken && (await isThere(transfers, account.id, file, known !== undefined)))
      return { plants, before: plants }
    await beginImport(transfers, key, facts)
    before = 0
  }
  try {
    await write(transfers, key, file, plants, before)
  } catch (error) {
    throw error instanceof TakenId ? await takenMeanwhile(transfers, key, file, error) : error
  }
  return { plants, before }
}

/**
 * Takes an import back: removes the plants that it added, and that are as it added them.
 * @returns how many those were
 * @throws AccessError for a file that is not imported into the account
 */
export async function undoImport(transfers: PlantTransfers, account: Account, file: InputFile): Promise<number> {
  const key = { account: account.id, digest: await digestOf(file) }
  const { done, highest } = await transfers.beginUndo(key)
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
async function check(file: InputFile): Promise<Facts> {
  let digest = ''
  let plants = 0
  let lowest: PortablePlant | undefined
  let highest: PortablePlant | undefined
  let isAscending = true
  const onDigest = (found: string) => {
    digest = found
  }
  for await (const some of readAccountFile(file.bytes(onDigest))) {
    plants += some.length
    for (const plant of some) {
      if (highest && plant.id <= highest.id) isAscending = false
      if (!highest || plant.id > highest.id) highest = plant
      if (!lowest || plant.id < lowest.id) lowest = plant
    }
  }
  return { digest, plants, lowest, highest, isAscending }
}

async function digestOf(file: InputFile): Promise<string> {
  let digest = ''
  const onDigest = (found: string) => {
    digest = found
  }
  for await (const _ of file.bytes(onDigest));
  return digest
}

/** @throws AccessError when two plants of the file have the same id */
async function refuseRepeated(file: InputFile): Promise<void> {
  const { LinesById } = await import('./lines-by-id.ts')
  const lines = new LinesById()
  try {
    let index = 0
    for await (const some of readAccountFile(file.bytes())) {
      for (const { id } of some) {
        const line = lineOf(index++)
        const first = lines.add(id, line)
        if (first === undefined) continue
        throw new AccessError(
          `Line ${line}: there is a plant with the id ${id} already, on line ${first}. Nothing was imported.`,
        )
      }
    }
  } finally {
    lines.close()
  }
}

/**
 * Compares a file with what the account has at its ids.
 * @param wasImported whether the same file was imported before
 * @returns whether all of its plants are there by that
 * @throws AccessError that names the line of the first id that is taken
 */
async function isThere(
  transfers: PlantTransfers,
  account: number,
  file: InputFile,
  wasImported: boolean,
): Promise<boolean> {
  let index = 0
  let equal = 0
  let taken: string | undefined
  for await (const some of readAccountFile(file.bytes())) {
    const held = new Map((await transfers.held(account, some)).map((plant) => [plant.id, plant]))
    for (const [at, { id, name, tag }] of some.entries()) {
      const there = held.get(id)
      if (!there) continue
      taken ??= takenSentence(index + at, id)
      if (there.name === name && there.tag === tag) equal++
    }
    index += some.length
    if (taken !== undefined && !(wasImported && equal === index))
      throw new AccessError(`${taken}. Nothing was imported.`)
  }
  return equal === index
}

/** @throws AccessError when another plant has taken the highest id of the file meanwhile */
async function beginImport(transfers: PlantTransfers, key: ImportKey, { plants, highest }: Facts): Promise<void> {
  try {
    await transfers.beginImport(key, plants, highest)
  } catch (error) {
    if (!(error instanceof TakenId)) throw error
    throw new AccessError(`There is a plant with the id ${error.id} already. Nothing was imported.`)
  }
}

/** Writes what comes after the first plants of a file. */
async function write(
  transfers: PlantTransfers,
  key: ImportKey,
  file: InputFile,
  plants: number,
  before: number,
): Promise<void> {
  const pace = new Pace(transfers)
  let digest = ''
  const onDigest = (found: string) => {
    digest = found
  }
  let at = 0
  let writing = Promise.resolve()
  for await (const some of inBatches(readAccountFile(file.bytes(onDigest)), pace)) {
    const rest = some.slice(Math.max(0, before - at))
    const begin = at + some.length - rest.length
    at += some.length
    // While one is written the next one is read.
    await writing
    if (rest.length === 0) continue
    const isLast = at === plants
    writing = pace.take(rest.length, () => transfers.addPlants(key, begin, rest, isLast))
    // What it fails with is thrown where it is waited for.
    writing.catch(() => undefined)
  }
  await writing
  if (digest === key.digest) return
  throw new AccessError(
    'The file has been changed while it was imported. Put it back as it was, and take it back: --undo.',
  )
}

/** The refusal of an id that another plant has taken since the import began. */
async function takenMeanwhile(
  transfers: PlantTransfers,
  key: ImportKey,
  file: InputFile,
  { id }: TakenId,
): Promise<AccessError> {
  const done = (await transfers.findImport(key))?.done ?? 0
  let at = 0
  for await (const some of readAccountFile(file.bytes())) {
    const index = some.findIndex((plant) => plant.id === id)
    if (index >= 0) {
      return new AccessError(
        `${takenSentence(at + index, id)}, and was not when the import began. The first ${done} plants of the file are imported: remove that one and run this again, or take them back with --undo.`,
      )
    }
    at += some.length
  }
  return new AccessError(`There is a plant with the id ${id} already.`)
}

function takenSentence(index: number, id: number): string {
  return `Line ${lineOf(index)}: there is a plant with the id ${id} already`
}
