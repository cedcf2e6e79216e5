import { webcrypto } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import {
  type Character,
  type CharacterStore,
  type NameMatch,
  parseCharacterName,
  type StoredVersion,
} from './character.ts'
import type { PublicCard, PublicCards } from './public-cards.ts'
import { wholeOf } from './source-bytes.ts'

/** A found character whose card is not read yet. */
export interface FoundCharacter {
  readonly name: string
  readonly origin: Character['origin']
  readonly digest: string
  /** The number of bytes of the source; 0 if the character was removed since it was found. */
  readonly size: () => Promise<number>
  /** The source; null if the character was removed or changed since it was found. */
  readonly source: () => Promise<Buffer | null>
}

/**
 * Finds a character by a name, which may pin a version. An exact match comes before a match without regard to case. Among equal
 * matches the account's uploads come first, then the folder's cards, then the starters.
 * @param account the account whose uploads are searched; null to search no uploads
 */
export async function findCharacter(
  store: CharacterStore,
  cards: PublicCards,
  account: number | null,
  text: string,
): Promise<FoundCharacter | undefined> {
  const { name, digest } = parseCharacterName(text)
  if (digest === null) return undefined
  const places = { store, cards, account }
  for (const match of ['exact', 'any-case'] as const) {
    const found =
      digest === undefined ? await findNewest(places, name, match) : await findVersion(places, name, match, digest)
    if (found) return found
  }
  return undefined
}

/** The places that are searched for one account's characters. */
interface Places {
  readonly store: CharacterStore
  readonly cards: PublicCards
  readonly account: number | null
}

async function findNewest(
  { store, cards, account }: Places,
  name: string,
  match: NameMatch,
): Promise<FoundCharacter | undefined> {
  const own = account === null ? undefined : await store.find(account, name, match)
  if (own && account !== null) return ofAccount(store, account, own)
  const card = cards.find(name, match)
  return card && ofFolder(card)
}

/** @param digest the beginning of the version's digest */
async function findVersion(
  { store, cards, account }: Places,
  name: string,
  match: NameMatch,
  digest: string,
): Promise<FoundCharacter | undefined> {
  const own = account === null ? [] : await store.findVersions(account, name, match, digest)
  const others = cards.findVersions(name, match, digest)
  // If two different digests have this beginning, the pin is ambiguous, and matches no version.
  if (new Set([...own, ...others].map((version) => version.digest)).size !== 1) return undefined
  const [version] = own
  if (version && account !== null) return ofAccount(store, account, version)
  const [card] = others
  return card && ofFolder(card)
}

function ofAccount(store: CharacterStore, account: number, { name, digest }: StoredVersion): FoundCharacter {
  return {
    name,
    digest,
    origin: 'account',
    size: async () => (await store.size(account, name, digest)) ?? 0,
    source: async () => {
      const source = await store.source(account, name, digest)
      return (source && (await wholeOf(source))) ?? null
    },
  }
}

function ofFolder({ name, origin, digest, file }: PublicCard): FoundCharacter {
  const source = async () => {
    const bytes = await readFile(file).catch(() => null)
    return bytes && (await digestInBackground(bytes)) === digest ? bytes : null
  }
  const size = async () => (await stat(file).catch(() => ({ size: 0 }))).size
  return { name, origin, digest, size, source }
}

/** SHA-256 of bytes, 64 hex digits, computed in Node's thread pool: that of 16 MiB takes 10 to 40 ms. */
async function digestInBackground(bytes: Buffer<ArrayBuffer>): Promise<string> {
  return Buffer.from(await webcrypto.subtle.digest('SHA-256', bytes)).toString('hex')
}
