import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { codeOf } from '../errors.ts'
import { valueIn } from '../fields.ts'
import type { CommandLibrary } from './command-library.ts'
import { shownDigest } from './library/character.ts'
import { nameOf, type ReadCard, readCardBytes } from './library/jobs.ts'
import { realPath } from './library/watched-folder.ts'

/** A card to import, and its name in the library. */
interface NamedCard extends ReadCard {
  readonly name: string
}

/**
 * Imports cards into the folder, or into the uploads of the library's account. Nothing is written before all cards are read.
 * @returns a line of text for each card
 * @throws Error that names every faulty file; then nothing is imported
 */
export async function importCards(
  files: readonly string[],
  commandLibrary: CommandLibrary,
  isReplacing: boolean,
): Promise<readonly string[]> {
  const cards: NamedCard[] = []
  const faults: string[] = []
  for (const file of files) {
    try {
      const card = readCardBytes(await readWholeFile(file, commandLibrary.maxCardBytes))
      const name = nameOf(card)
      await checkNotTaken(name, card, commandLibrary, isReplacing)
      if (cards.some((other) => other.name === name)) throw new Error(`${JSON.stringify(name)} is in two of the files.`)
      cards.push({ ...card, name })
    } catch (error) {
      faults.push(`${file}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
  if (faults.length > 0) throw new Error(faults.join('\n'))
  const lines: string[] = []
  for (const card of cards) lines.push(await importCard(card, commandLibrary))
  return lines
}

/**
 * Reads a whole file.
 * @throws Error with a message for users if the file is too large or cannot be read
 */
export async function readWholeFile(file: string, maxBytes: number): Promise<Buffer> {
  try {
    const stats = await stat(file)
    if (!stats.isFile()) throw new Error('It is not a file.')
    if (stats.size > maxBytes) throw new Error(`It is larger than ${maxBytes} bytes (CARD_BODY_LIMIT).`)
    return await readFile(file)
  } catch (error) {
    const code = codeOf(error)
    if (code === '') throw error
    const reasons: Readonly<Record<string, string>> = {
      ENOENT: 'There is no such file.',
      EACCES: 'This user may not read it.',
    }
    throw new Error(valueIn(reasons, code) ?? `It cannot be read (${code}).`, { cause: error })
  }
}

async function checkNotTaken(
  name: string,
  { digest }: ReadCard,
  commandLibrary: CommandLibrary,
  isReplacing: boolean,
): Promise<void> {
  if (commandLibrary.account !== null) {
    const taken = await commandLibrary.store.find(commandLibrary.account, name, 'exact')
    if (!taken || taken.digest === digest || isReplacing) return
    throw new Error(`The account has a character ${JSON.stringify(name)} already. Replace it with --replace.`)
  }
  const taken = commandLibrary.library.inFolder(name)
  if (taken === undefined || taken.digest === digest) return
  if (!isImported(taken.file, commandLibrary)) {
    throw new Error(`There is a character ${JSON.stringify(name)} in ${taken.file} already. Remove that file first.`)
  }
  if (isReplacing) return
  throw new Error(`There is a character ${JSON.stringify(name)} in the folder already. Replace it with --replace.`)
}

async function importCard(card: NamedCard, commandLibrary: CommandLibrary): Promise<string> {
  const { name, digest, source, about } = card
  const shown = `${JSON.stringify(name)} (${shownDigest(digest)})`
  if (commandLibrary.account !== null) {
    await commandLibrary.store.put(commandLibrary.account, { name, digest, source: source.bytes, about })
    return `${shown} is among the account's characters.`
  }
  const taken = commandLibrary.library.inFolder(name)
  if (taken?.digest === digest) return `${shown} is in ${taken.file} already.`
  // The digest is the file name, so that a card cannot choose a path.
  const file = join(commandLibrary.folder, `${digest}.${source.container}`)
  await mkdir(commandLibrary.folder, { recursive: true })
  const unfinished = join(commandLibrary.folder, `.${digest}.unfinished`)
  try {
    await writeFile(unfinished, source.bytes)
    await rename(unfinished, file)
  } finally {
    await rm(unfinished, { force: true })
  }
  if (taken) await rm(taken.file, { force: true })
  return `${shown} is in ${file}.`
}

/** Whether an import wrote this file: imported files are in the folder for imports, and their names are digests. */
function isImported(file: string, { folder }: CommandLibrary): boolean {
  return dirname(file) === realPath(folder) && /^[0-9a-f]{64}\.(?:json|png|charx)$/.test(basename(file))
}
