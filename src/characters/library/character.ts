import type { Key } from '../../access/access.ts'
import type { Actor, AuditAction, AuditEntry } from '../../audit/record.ts'
import { ApiError } from '../../errors.ts'
import { didYouMean, type NameRule, nameProblem } from '../../text.ts'
import type { KeptCard } from '../cards/kept-card.ts'
import type { CardAbout } from '../cards/summary.ts'

/** Where a character comes from: an account's upload, the operator's folder, or the package. */
export type Origin = 'account' | 'folder' | 'starter'

/** A character of the library. */
export interface FoundCharacter {
  /** The name in the library. The name in the card may differ. */
  readonly name: string
  readonly origin: Origin
  /** SHA-256 of the source bytes, 64 hex digits. */
  readonly digest: string
  /** The number of bytes of the source; 0 if the character was removed since it was found. */
  readonly size: () => Promise<number>
  /** The source; undefined if the character was removed or changed since it was found. */
  readonly read: () => Promise<Buffer | undefined>
}

/** A character that can be played. */
export interface Character extends FoundCharacter {
  readonly card: KeptCard
}

/** A character in a list, without its card. */
export interface ListedCharacter {
  readonly name: string
  readonly origin: Origin
  readonly digest: string
  readonly about: CardAbout
  /** The times of the first and the last upload, in Unix seconds; missing for a starter and for a card of the folder. */
  readonly created?: number
  readonly updated?: number
}

/** A card to store. */
export interface NewCharacter {
  readonly name: string
  readonly digest: string
  /** The uploaded bytes, unchanged. */
  readonly source: Buffer
  readonly about: CardAbout
}

/** An uploaded character in the store. */
export interface StoredCharacter extends ListedCharacter {
  readonly origin: 'account'
  readonly created: number
  readonly updated: number
}

/** The source of a stored card, which a reader gets in pieces. */
export interface SourceBytes {
  readonly length: number
  /** The pieces in order. They have fewer bytes than `length` if the card is deleted while it is read. */
  readonly pieces: Iterable<Buffer> | AsyncIterable<Buffer>
}

/** All bytes of a source; undefined if the card is deleted while it is read. */
export async function wholeOf({ length, pieces }: SourceBytes): Promise<Buffer | undefined> {
  let whole: Buffer | undefined
  let end = 0
  for await (const piece of pieces) {
    if (piece.length === length) return piece
    // A card in pieces is large, so a worker reads it, and gets it without a copy.
    whole ??= Buffer.from(new SharedArrayBuffer(length))
    end += piece.copy(whole, end)
  }
  return end === length ? whole : undefined
}

/** A version of an uploaded character: one of the cards uploaded under this name. */
export interface StoredVersion {
  readonly name: string
  readonly digest: string
}

/** The key of one account's character. */
export interface CharacterKey {
  readonly account: number
  readonly name: string
}

/** The key of one version of an account's character. */
export interface VersionKey extends CharacterKey {
  readonly digest: string
}

/** The limits of an account's characters, and of the bytes of all their versions; undefined means no limit. */
export interface CharacterLimits {
  readonly characters?: number | undefined
  readonly bytes?: number | undefined
}

/** The result of one step of a purge. */
export interface PurgeStep {
  readonly removed: readonly VersionKey[]
  /** The character after which the next step continues; null to begin with the first. */
  readonly after: CharacterKey | null
  /** Whether it was the last step. */
  readonly isLast: boolean
}

/** How names are compared: exactly, or without regard to case. */
export type NameMatch = 'exact' | 'any-case'

/**
 * Stores the characters that accounts upload. A method with an account sees only that account's characters. `create`, `put`,
 * `remove` and `purge` write audit records in the transaction of the change, with `by` as the actor. The default of `by` is the
 * command line; for `purge`, it is the service.
 */
export interface CharacterStore {
  /**
   * Adds a character, and resolves when the character is on disk.
   * @throws ApiError 409 when the name is taken, 429 beyond the limits
   */
  create(account: number, character: NewCharacter, limits?: CharacterLimits, by?: Actor): Promise<void>
  /**
   * Adds a character, or makes the card the current version of the character of this name. @returns whether the character is new
   * @throws ApiError 429 beyond the limits
   */
  put(account: number, character: NewCharacter, limits?: CharacterLimits, by?: Actor): Promise<boolean>
  /** The number of an account's characters, and the bytes of all their versions. */
  count(account: number): Promise<{ readonly characters: number; readonly bytes: number }>
  /** The current version of a character, without a promise if the answer is cached. */
  find(
    account: number,
    name: string,
    match: NameMatch,
  ): StoredCharacter | undefined | Promise<StoredCharacter | undefined>
  /** The versions of the characters of this name whose digest begins with `digest`. */
  findVersions(account: number, name: string, match: NameMatch, digest: string): Promise<readonly StoredVersion[]>
  /** The number of bytes of a version's source; undefined for an unknown version. */
  size(account: number, name: string, digest: string): Promise<number | undefined>
  /** The source of a version, which the caller reads in pieces; undefined for an unknown version. */
  source(account: number, name: string, digest: string): Promise<SourceBytes | undefined>
  /** At most `limit` characters whose names come after `after`, in the order of `compareNames`. */
  list(account: number, after: string, limit: number): Promise<readonly StoredCharacter[]>
  /**
   * Removes a character with all its versions. If it has many versions, the oldest ones are removed first, in transactions of their
   * own. Meanwhile requests still find the character, and after a crash it has its newest versions.
   * @returns whether the account had this character
   */
  remove(account: number, name: string, by?: Actor): Promise<boolean>
  /** Records that versions were used at `moment` (Unix seconds), unless a use of the same day is recorded already. */
  noteUses(versions: readonly VersionKey[], moment: number): Promise<void>
  /**
   * Removes some expired versions from a page of characters: versions that are not among the newest 20 of their character, were
   * not used since `usedSince` (Unix seconds), and are not the current one.
   * @param after `after` of the previous step; null for the first step
   */
  purge(after: CharacterKey | null, usedSince: number, by?: Actor): Promise<PurgeStep>
  /** At most `limit` characters after `after`, of all accounts. @param after null to begin with the first character */
  page(after: CharacterKey | null, limit: number): Promise<readonly (CharacterKey & StoredCharacter)[]>
  /** Stores the public facts of a version, if it is still the current one. The character's `updated` does not change. */
  noteAbout(version: VersionKey, about: CardAbout): Promise<void>
  /**
   * Removes some pieces of cards that belong to no version: pieces of removed versions, of refused uploads, and of unfinished
   * uploads that began before `before` (Unix seconds).
   * @returns the number of removed rows, at most `maxRows`; 0 when none are left
   */
  removeLeftovers(before: number, maxRows: number): Promise<number>
}

/**
 * The audit record of a change to a character.
 * @param before the digest of the card before the change; null for a new character
 * @param after the digest after the change; null for a deleted character
 */
export function characterEntry(
  action: AuditAction,
  account: number,
  name: string,
  before: string | null,
  after: string | null,
): AuditEntry {
  const facts = (digest: string | null) => (digest === null ? null : { digest: shownDigest(digest) })
  return { action, target: name, account: { id: account }, before: facts(before), after: facts(after) }
}

/** The order of lists: by UTF-8 bytes, which is also the order of code points. Both databases use the same order. */
export function compareNames(a: string, b: string): number {
  const length = Math.min(a.length, b.length)
  for (let index = 0; index < length; index++) {
    const [unit, other] = [a.charCodeAt(index), b.charCodeAt(index)]
    if (unit !== other) return rankOf(unit) - rankOf(other)
  }
  return a.length - b.length
}

/** The place of a UTF-16 unit: surrogates begin the code points from U+10000, which come after all others. */
function rankOf(unit: number): number {
  if (unit < 0xd800) return unit
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800
}

/** A name for comparisons without regard to case. */
export function foldName(name: string): string {
  return name.toLowerCase()
}

/** A digest as replies and commands show it. */
export function shownDigest(digest: string): string {
  return `sha256:${digest}`
}

/** The text between a name and the digest that pins a version. */
const pinMark = `@${shownDigest('')}`

const characterNameRule: NameRule = {
  // The same limit as for `character` in a request.
  longest: 200,
  ifBlank: 'give the character a name',
  verb: 'write',
  refused: { pattern: new RegExp(pinMark), problem: `has "${pinMark}" in it, which pins a version; leave it out` },
}

/** The fault of a character's name, as the end of a sentence; undefined for a valid name. */
export function characterNameProblem(name: string): string | undefined {
  return nameProblem(name, characterNameRule)
}

/** The fewest digits of a pinned digest; a shorter one matches nothing. */
const minPinLength = 8

/** A name in a request, which can pin a version with `@sha256:…`. */
export interface ParsedName {
  readonly name: string
  /** The beginning of the pinned digest. Null for an invalid pin, which matches nothing; undefined for a name without a pin. */
  readonly digest?: string | null
}

/** The name that pins one version of a character. */
export function pinnedName(name: string, digest: string): string {
  return `${name}${pinMark}${digest}`
}

/** Parses a name, which may pin a version by at least the first 8 digits of its digest. */
export function parseCharacterName(text: string): ParsedName {
  const mark = text.lastIndexOf(pinMark)
  if (mark === -1) return { name: text.trim() }
  const digest = text.slice(mark + pinMark.length).trim()
  const isDigest = new RegExp(`^[0-9a-f]{${minPinLength},64}$`, 'i').test(digest)
  return { name: text.slice(0, mark).trim(), digest: isDigest ? digest.toLowerCase() : null }
}

/**
 * Whether a caller may read the whole card: its prompt, its lore, its examples. Cards of the folder belong to the operator. An
 * upload needs no check, because only the account of the upload finds it.
 */
export function mayRead(caller: Pick<Key, 'scopes'>, { origin }: Pick<Character, 'origin'>): boolean {
  return origin !== 'folder' || caller.scopes.includes('admin')
}

/**
 * The error for each name that does not resolve. It reveals nothing about other accounts.
 * @param meant the most similar name among the characters that the caller may play
 */
export function unknownCharacter(meant?: string): ApiError {
  const message = `There is no character of this name here.${didYouMean(meant)} Check the name.`
  return new ApiError(404, 'character_not_found', message, { param: 'character' })
}

/** The error for a name that another character of the account has. */
export function nameTaken(): ApiError {
  const message = 'You have a character of this name already. Replace it with PUT, or use another name.'
  return new ApiError(409, 'name_taken', message, { param: 'name' })
}
