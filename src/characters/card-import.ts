import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { codeOf } from '../errors.ts'
import { nameOf, type ReadCard, readCardBytes } from './library/card-bytes.ts'
import { shownDigest } from './library/character.ts'
import { realPath } from './library/watched-folder.ts'
import type { Shelf } from './shelf.ts'

/** A card that is to be imported. */
interface NamedCard extends ReadCard {
  readonly name: string
}

/**
 * Imports cards into the folder, or into the account that the shelf is of; gives a line for each.
 * Nothing is written before every card has been read.
 * @throws Error that names every file at fault
 */
export async function importCards(
  files: readonly string[],
  shelf: Shelf,
  isReplacing: boolean,
): Promise<readonly string[]> {
  const cards: NamedCard[] = []
  const faults: string[] = []
  for (const file of files) {
    try {
      const card = readCardBytes(await readWhole(file, shelf.maxCardBytes))
      const name = nameOf(card.card)
      await refuseTaken(name, card, shelf, isReplacing)
      if (cards.some((other) => other.name === name)) throw new Error(`${JSON.stringify(name)} is in two of the files.`)
      cards.push({ ...card, name })
    } catch (error) {
      faults.push(`${file}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
  if (faults.length > 0) throw new Error(faults.join('\n'))
  const lines: string[] = []
  for (const card of cards) lines.push(await keep(card, shelf))
  return lines
}

/**
 * Reads a file, unless it is too large.
 * @throws Error in words for people
 */
export async function readWhole(file: string, largest: number): Promise<Buffer> {
  try {
    const stats = await stat(file)
    if (!stats.isFile()) throw new Error('It is not a file.')
    if (stats.size > largest) throw new Error(`It is larger than ${largest} bytes (CARD_BODY_LIMIT).`)
    return await readFile(file)
  } catch (error) {
    const code = codeOf(error)
    if (code === '') throw error
    const reasons: Readonly<Record<string, string>> = {
      ENOENT: 'There is no such file.',
      EACCES: 'This user may not read it.',
    }
    throw new Error(reasons[code] ?? `It cannot be read (${code}).`, { cause: error })
  }
}

async function refuseTaken(name: string, { digest }: ReadCard, shelf: Shelf, isReplacing: boolean): Promise<void> {
  if (shelf.account !== null) {
    const taken = await shelf.store.find(shelf.account, name, 'exact')
    if (!taken || taken.digest === digest || isReplacing) return
    throw new Error(`The account has a character ${JSON.stringify(name)} already. Replace it with --replace.`)
  }
  const taken = shelf.library.inFolder(name)
  if (taken === undefined || taken.digest === digest) return
  if (!isOurs(taken.file, shelf)) {
    throw new Error(`There is a character ${JSON.stringify(name)} in ${taken.file} already. Take that file away first.`)
  }
  if (isReplacing) return
  throw new Error(`There is a character ${JSON.stringify(name)} in the folder already. Replace it with --replace.`)
}

async function keep(card: NamedCard, shelf: Shelf): Promise<string> {
  const { name, digest, source, about } = card
  const shown = `${JSON.stringify(name)} (${shownDigest(digest)})`
  if (shelf.account !== null) {
    await shelf.store.put(shelf.account, { name, digest, source: source.bytes, about })
    return `${shown} is among the account's characters.`
  }
  const taken = shelf.library.inFolder(name)
  if (taken?.digest === digest) return `${shown} is in ${taken.file} already.`
  // Named by its digest: a card chooses no file's name.
  const file = join(shelf.folder, `${digest}.${source.container}`)
  await mkdir(shelf.folder, { recursive: true })
  const unfinished = join(shelf.folder, `.${digest}.unfinished`)
  try {
    await writeFile(unfinished, source.bytes)
    await rename(unfinished, file)
  } finally {
    await rm(unfinished, { force: true })
  }
  if (taken) await rm(taken.file, { force: true })
  return `${shown} is in ${file}.`
}

/** Whether a file is one that an import wrote; nothing in `CONFIG_DIR` is. */
function isOurs(file: string, { folder }: Shelf): boolean {
  return dirname(file) === realPath(folder) && /^[0-9a-f]{64}\.(?:json|png|charx)$/.test(basename(file))
}
