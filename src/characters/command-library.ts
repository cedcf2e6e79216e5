import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { type AccessStores, findAccount } from '../access/access.ts'
import type { Config } from '../config.ts'
import { codeOf } from '../errors.ts'
import { valueIn } from '../fields.ts'
import { type CardSource, readCardSource } from './cards/source.ts'
import { type Character, type CharacterStore, shownDigest } from './library/character.ts'
import { nameOf, type ReadCard, readCardBytes } from './library/jobs.ts'
import { type CharacterLibrary, createLibrary } from './library/library.ts'
import { realPath } from './library/watched-folder.ts'

/** The stores that commands for characters use. */
export interface CharacterStores extends AccessStores {
  readonly characters: CharacterStore
}

/** A character with the source of its card. */
export type SourcedCharacter = Character & { readonly source: CardSource }

/** The number of characters that are read from the library in one page. */
const page = 1000

/** The characters for the operator's commands: the folder, the starters, and the uploads of an account if one is named. */
export class CommandLibrary {
  readonly library: CharacterLibrary
  readonly store: CharacterStore
  /** The id of the named account; null for none. */
  readonly account: number | null
  /** The folder for imported cards that all accounts may play. */
  readonly folder: string
  /** The most bytes of a card that is imported (`CARD_BODY_LIMIT`). */
  readonly maxCardBytes: number

  constructor(library: CharacterLibrary, store: CharacterStore, account: number | null, config: Config) {
    this.library = library
    this.store = store
    this.account = account
    this.folder = join(config.dataDirectory, 'characters')
    this.maxCardBytes = config.cardBodyLimit
  }

  /** Finds a character, and reads its source. @throws ApiError 404 if there is no character of this name */
  async find(name: string): Promise<SourcedCharacter> {
    const character = await this.library.resolve(this.account, name)
    const bytes = await character?.read()
    if (!character || !bytes) throw await this.library.unknown(this.account, name)
    return { ...character, source: readCardSource(bytes) }
  }

  /** All characters, one row each. */
  async list(): Promise<readonly object[]> {
    const rows: object[] = []
    for (let after = ''; ; ) {
      const found = await this.library.list(this.account, after, page)
      for (const { name, origin, digest, about } of found) {
        const { creator, tags } = about
        rows.push({ name, origin, digest: shownDigest(digest), creator, tags })
      }
      if (found.length < page) return rows
      after = found.at(-1)?.name ?? ''
    }
  }
}

/**
 * Opens the library for one command.
 * @throws AccessError if there is no account of this name
 */
export async function openCommandLibrary(
  config: Config,
  { access, characters }: CharacterStores,
  account?: string,
): Promise<CommandLibrary> {
  const owner = account === undefined ? null : (await findAccount(access, account)).id
  const library = createLibrary(config, characters)
  await library.rescan()
  return new CommandLibrary(library, characters, owner, config)
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
  const cards: (ReadCard & { readonly name: string })[] = []
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
  { account, store, library, folder }: CommandLibrary,
  isReplacing: boolean,
): Promise<void> {
  const shown = JSON.stringify(name)
  if (account !== null) {
    const taken = await store.find(account, name, 'exact')
    if (!taken || taken.digest === digest || isReplacing) return
    throw new Error(`The account has a character ${shown} already. Replace it with --replace.`)
  }
  const taken = library.inFolder(name)
  if (taken === undefined || taken.digest === digest) return
  // An import writes into the folder for imports, and its files have digests as names.
  const isImported =
    dirname(taken.file) === realPath(folder) && /^[0-9a-f]{64}\.(?:json|png|charx)$/.test(basename(taken.file))
  if (!isImported) {
    throw new Error(`There is a character ${shown} in ${taken.file} already. Remove that file first.`)
  }
  if (!isReplacing) throw new Error(`There is a character ${shown} in the folder already. Replace it with --replace.`)
}

async function importCard(
  { name, digest, source, about }: ReadCard & { readonly name: string },
  { account, store, library, folder }: CommandLibrary,
): Promise<string> {
  const shown = `${JSON.stringify(name)} (${shownDigest(digest)})`
  if (account !== null) {
    await store.put(account, { name, digest, source: source.bytes, about })
    return `${shown} is among the account's characters.`
  }
  const taken = library.inFolder(name)
  if (taken?.digest === digest) return `${shown} is in ${taken.file} already.`
  // The digest is the file name, so that a card cannot choose a path.
  const file = join(folder, `${digest}.${source.container}`)
  await mkdir(folder, { recursive: true })
  const unfinished = join(folder, `.${digest}.unfinished`)
  try {
    await writeFile(unfinished, source.bytes)
    await rename(unfinished, file)
  } finally {
    await rm(unfinished, { force: true })
  }
  if (taken) await rm(taken.file, { force: true })
  return `${shown} is in ${file}.`
}
