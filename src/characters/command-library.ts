import { join } from 'node:path'
import { type AccessStores, findAccount } from '../access/access.ts'
import type { Config } from '../config.ts'
import { type CardSource, readCardSource } from './cards/source.ts'
import { type Character, type CharacterStore, shownDigest } from './library/character.ts'
import { type CharacterLibrary, createLibrary } from './library/library.ts'

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
