import { join } from 'node:path'
import { type AccessStores, findAccount } from '../access/access.ts'
import type { Config } from '../config.ts'
import { type CardSource, readCardSource } from './cards/source.ts'
import { type Character, type CharacterStore, shownDigest, unknownCharacter } from './library/character.ts'
import { type CharacterLibrary, createLibrary } from './library/library.ts'

/** The stores as far as commands use them that look after characters. */
export interface CharacterStores extends AccessStores {
  readonly characters: CharacterStore
}

/** A character with the source of its card. */
export type SourcedCharacter = Character & { readonly source: CardSource }

/** How many characters are listed at a time. */
const page = 1000

/** The characters as the operator's commands see them: the folder and the starters, and one account's when it is named. */
export class Shelf {
  readonly library: CharacterLibrary
  readonly store: CharacterStore
  /** The id of the account that was named; null when none was. */
  readonly account: number | null
  /** The folder into which cards are imported that everybody may talk to. */
  readonly folder: string
  /** Bytes. */
  readonly maxCardBytes: number

  constructor(library: CharacterLibrary, store: CharacterStore, account: number | null, config: Config) {
    this.library = library
    this.store = store
    this.account = account
    this.folder = join(config.dataDirectory, 'characters')
    this.maxCardBytes = config.cardBodyLimit
  }

  /** @throws ApiError when there is no character of this name */
  async find(name: string): Promise<SourcedCharacter> {
    const character = await this.library.resolve(this.account, name)
    const bytes = character && (await this.library.source(this.account, character))
    if (!character || !bytes) throw unknownCharacter()
    return { ...character, source: readCardSource(bytes) }
  }

  /** All characters, a row each. */
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
 * Opens the shelf for one command.
 * @throws AccessError when there is no account of this name
 */
export async function openShelf(
  config: Config,
  { access, characters }: CharacterStores,
  account?: string,
): Promise<Shelf> {
  const owner = account === undefined ? null : (await findAccount(access, account)).id
  const library = createLibrary(config, characters)
  await library.rescan()
  return new Shelf(library, characters, owner, config)
}
