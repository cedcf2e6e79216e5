import { webcrypto } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { basename, dirname, extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  type CharacterStore,
  compareNames,
  type FoundCharacter,
  foldName,
  type ListedCharacter,
  type NameMatch,
  parseCharacterName,
  type StoredVersion,
  wholeOf,
} from './character.ts'
import { type FolderFile, realPath, type UnreadableFile } from './watched-folder.ts'

/** The data to find and list a card of a folder. The card itself is in a cache, or is read again when it is needed. */
export interface PublicCard extends ListedCharacter {
  readonly origin: 'folder' | 'starter'
  readonly file: string
}

/** The folder of the characters that ship with the package. In the repository, it is by default the operator's folder too. */
export const starterFolder = realPath(fileURLToPath(new URL('../../../data/characters', import.meta.url)))

/** The characters that ship with the package, by file name without extension. Other files in the folder are the operator's. */
const starters: ReadonlySet<string> = new Set(['bolt', 'fern', 'tolliver', 'vesper'])

/** The origin of a file: a starter, or a card that the operator put into the folder. */
export function originOf(file: string): PublicCard['origin'] {
  const isStarter = dirname(file) === starterFolder && starters.has(basename(file, extname(file)))
  return isStarter ? 'starter' : 'folder'
}

/** The name of the file `other` in a message about `file`: without the folder if both are in the same folder. */
function seenFrom(file: string, other: string): string {
  return dirname(file) === dirname(other) ? basename(other) : other
}

/** The characters that all accounts may play, by name. A card of the operator's folder hides a starter of the same name. */
export class PublicCards {
  /** In the order of `compareNames`, without hidden cards. */
  readonly listed: readonly PublicCard[]
  /** Cards that only a pin (`name@sha256:…`) finds, because another card of the same origin has the same name. */
  readonly hidden: readonly UnreadableFile[]
  readonly #byName = new Map<string, PublicCard>()
  readonly #byFoldedName = new Map<string, PublicCard>()
  readonly #all: readonly PublicCard[]

  constructor(files: readonly FolderFile<PublicCard>[]) {
    const hidden: UnreadableFile[] = []
    const all = files.map(({ value }) => value)
    this.#all = [
      ...all.filter(({ origin }) => origin === 'folder'),
      ...all.filter(({ origin }) => origin === 'starter'),
    ]
    for (const card of this.#all) {
      const first = this.#byName.get(card.name)
      if (!first) this.#byName.set(card.name, card)
      else if (first.origin === card.origin) {
        hidden.push({
          file: card.file,
          reason: `It has the same name as ${seenFrom(card.file, first.file)}, which comes first.`,
        })
      }
      const folded = foldName(card.name)
      if (!this.#byFoldedName.has(folded)) this.#byFoldedName.set(folded, card)
    }
    this.hidden = hidden
    this.listed = [...this.#byName.values()].sort((a, b) => compareNames(a.name, b.name))
  }

  /**
   * The card of a name; for a pin, all cards of this name whose digest begins with `digest`. The name is a key of a map and never a
   * part of a path.
   */
  find(name: string, match: NameMatch, digest?: string): readonly PublicCard[] {
    const folded = foldName(name)
    if (digest === undefined) {
      const card = match === 'exact' ? this.#byName.get(name) : this.#byFoldedName.get(folded)
      return card ? [card] : []
    }
    const isNamed = (card: PublicCard) => (match === 'exact' ? card.name === name : foldName(card.name) === folded)
    return this.#all.filter((card) => card.digest.startsWith(digest) && isNamed(card))
  }
}

/**
 * Finds a character by a name, which may pin a version. An exact match comes before a match without regard to case. Among equal
 * matches the account's uploads come first, then the folder's cards, then the starters. The result is a promise only if the store
 * gives one.
 * @param account the account whose uploads are searched; null to search no uploads
 */
export function findCharacter(
  store: CharacterStore,
  cards: PublicCards,
  account: number | null,
  text: string,
  match: NameMatch = 'exact',
): FoundCharacter | undefined | Promise<FoundCharacter | undefined> {
  const { name, digest } = parseCharacterName(text)
  if (digest === null) return undefined
  const chosen = (own: readonly StoredVersion[]): FoundCharacter | undefined => {
    // Without a pin, an upload hides the public cards.
    const others = digest === undefined && own.length > 0 ? [] : cards.find(name, match, digest)
    const [upload, card] = [own[0], others[0]]
    // If two different digests have the pinned beginning, the pin matches no version.
    if (digest !== undefined && new Set([...own, ...others].map((version) => version.digest)).size > 1) return undefined
    if (upload && account !== null) return ofAccount(store, account, upload)
    return card && ofFolder(card)
  }
  const orOther = (own: readonly StoredVersion[]) =>
    chosen(own) ?? (match === 'exact' ? findCharacter(store, cards, account, text, 'any-case') : undefined)
  const own = findUploads(store, account, name, match, digest)
  return own instanceof Promise ? own.then(orOther) : orOther(own)
}

/** @param digest the beginning of the digest of a version; undefined for the current version */
function findUploads(
  store: CharacterStore,
  account: number | null,
  name: string,
  match: NameMatch,
  digest: string | undefined,
): readonly StoredVersion[] | Promise<readonly StoredVersion[]> {
  if (account === null) return []
  if (digest !== undefined) return store.findVersions(account, name, match, digest)
  const listed = (found: StoredVersion | undefined) => (found ? [found] : [])
  const found = store.find(account, name, match)
  return found instanceof Promise ? found.then(listed) : listed(found)
}

function ofAccount(store: CharacterStore, account: number, { name, digest }: StoredVersion): FoundCharacter {
  return {
    name,
    digest,
    origin: 'account',
    size: async () => (await store.size(account, name, digest)) ?? 0,
    read: async () => {
      const source = await store.source(account, name, digest)
      return source && (await wholeOf(source))
    },
  }
}

function ofFolder({ name, origin, digest, file }: PublicCard): FoundCharacter {
  const read = async () => {
    const bytes = await readFile(file).catch(() => undefined)
    return bytes && (await digestInBackground(bytes)) === digest ? bytes : undefined
  }
  const size = async () => (await stat(file).catch(() => ({ size: 0 }))).size
  return { name, origin, digest, size, read }
}

/** SHA-256 of bytes, 64 hex digits, computed in Node's thread pool: that of 16 MiB takes 10 to 40 ms. */
async function digestInBackground(bytes: Buffer<ArrayBuffer>): Promise<string> {
  return Buffer.from(await webcrypto.subtle.digest('SHA-256', bytes)).toString('hex')
}
