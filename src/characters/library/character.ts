import type { Key } from '../../access/access.ts'
import type { Actor, AuditAction, AuditEntry } from '../../audit/record.ts'
import { ApiError } from '../../errors.ts'
import { type NameRule, nameProblem } from '../../text.ts'
import type { Card } from '../cards/card.ts'
import type { CardAbout } from '../cards/summary.ts'
import type { SourceBytes } from './source-bytes.ts'

/** Where a character comes from: an account's upload, the operator's folder, or the package. */
export type Origin = 'account' | 'folder' | 'starter'

/** A character that can be played: its card and the digest of the card's bytes. */
export interface Character {
  /** The name that it is kept under, which may differ from the card's own. */
  readonly name: string
  readonly origin: Origin
  readonly card: Card
  /** SHA-256 of the source bytes, 64 hex digits. */
  readonly digest: string
}

/** What a list tells of a character, without its card. */
export interface ListedCharacter {
  readonly name: string
  readonly origin: Origin
  readonly digest: string
  readonly about: CardAbout
  /** Unix seconds; only uploads have them. */
  readonly created?: number
  readonly updated?: number
}

/** A card as it is given to the store. */
export interface NewCharacter {
  readonly name: string
  readonly digest: string
  /** The bytes as they came. */
  readonly source: Buffer
  readonly about: CardAbout
}

/** An account's character as the store keeps it. */
export interface StoredCharacter extends ListedCharacter {
  readonly origin: 'account'
  readonly created: number
  readonly updated: number
}

/** A version of an account's character: one card that has been uploaded under this name. */
export interface StoredVersion {
  readonly name: string
  readonly digest: string
}

/** One account's character. */
export interface CharacterKey {
  readonly account: number
  readonly name: string
}

/** One version of an account's character. */
export interface VersionKey extends CharacterKey {
  readonly digest: string
}

/** What the characters of an account may come to, with all their versions; undefined is without bounds. */
export interface CharacterCeilings {
  readonly characters?: number | undefined
  readonly bytes?: number | undefined
}

/** What one step of a purge has removed. */
export interface PurgeStep {
  readonly removed: readonly VersionKey[]
  /** The character after which the next step goes on; null where that is the first. */
  readonly after: CharacterKey | null
  /** Whether it was the last step. */
  readonly isLast: boolean
}

/** How a name is compared: letter by letter, or whatever its case. */
export type NameMatch = 'exact' | 'any-case'

/**
 * Keeps the characters that accounts upload. Every method takes the account first and sees nothing of another's. Each change
 * is put on record in its transaction, as `by`'s; without it the command line's.
 */
export interface CharacterStore {
  /**
   * Adds a character; resolves when it is on disk.
   * @throws ApiError 409 when the name is taken, 429 beyond the ceilings
   */
  create(account: number, character: NewCharacter, ceilings?: CharacterCeilings, by?: Actor): Promise<void>
  /**
   * Adds a character or replaces the one of this name, whose versions stay; tells whether it is new.
   * @throws ApiError 429 beyond the ceilings
   */
  put(account: number, character: NewCharacter, ceilings?: CharacterCeilings, by?: Actor): Promise<boolean>
  /** How many characters an account has, and the bytes of all their versions. */
  count(account: number): Promise<{ readonly characters: number; readonly bytes: number }>
  find(account: number, name: string, match: NameMatch): Promise<StoredCharacter | undefined>
  /** The versions of this name whose digest begins like this. */
  findVersions(account: number, name: string, match: NameMatch, digest: string): Promise<readonly StoredVersion[]>
  /** How many bytes the source of a version has. */
  size(account: number, name: string, digest: string): Promise<number | undefined>
  /** The source of a version, to be read piece by piece. */
  source(account: number, name: string, digest: string): Promise<SourceBytes | undefined>
  /** At most `limit` characters whose names come after this one, in the order of `compareNames`. */
  list(account: number, after: string, limit: number): Promise<readonly StoredCharacter[]>
  /** Removes a character with all its versions; tells whether there was one. */
  remove(account: number, name: string, by?: Actor): Promise<boolean>
  /** Writes down that versions were used at a moment, Unix seconds; one a day is enough for each. */
  noteUses(versions: readonly VersionKey[], moment: number): Promise<void>
  /**
   * Removes a few of the versions that are not kept any more: beyond the newest 20 of their character, not used since a
   * moment in Unix seconds, and not what is played now. Looks at a page of characters.
   * @param after where the step before came to; null at the beginning
   * @param by the service, which is who it is put on record of
   */
  purge(after: CharacterKey | null, usedSince: number, by?: Actor): Promise<PurgeStep>
  /** At most `limit` characters of all accounts that come after this one; null at the beginning. */
  page(after: CharacterKey | null, limit: number): Promise<readonly (CharacterKey & StoredCharacter)[]>
  /** Notes what a card tells of itself, where it is still the one of its character; that is no change of the character. */
  noteAbout(version: VersionKey, about: CardAbout): Promise<void>
  /**
   * Removes a few pieces of cards that no version has: those of versions that are gone, and of uploads that were refused, or
   * have begun before a time in Unix seconds and come to nothing.
   * @returns how many rows that were, at most so many; 0 when none is left
   */
  removeLeftovers(before: number, most: number): Promise<number>
}

/**
 * What is put on record of a change to a character.
 * @param before the digest of its card before; null where there was none, or, of `after`, where there is none any more
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

/** The order of lists: by code points, as databases compare bytes. */
export function compareNames(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

/** A name whatever its case. */
export function foldName(name: string): string {
  return name.toLowerCase()
}

/** A digest as it is shown. */
export function shownDigest(digest: string): string {
  return `sha256:${digest}`
}

/** Stands between a name and the digest that pins a version of it. */
const pinMark = `@${shownDigest('')}`

const characterNameRule: NameRule = {
  // The same as of a request's `character`.
  longest: 200,
  ifBlank: 'give the character a name',
  verb: 'write',
  refused: { pattern: new RegExp(pinMark), problem: `has "${pinMark}" in it, which pins a version; leave it out` },
}

/** What is wrong with a character's name, as the end of a sentence; undefined where nothing is. */
export function characterNameProblem(name: string): string | undefined {
  return nameProblem(name, characterNameRule)
}

/** So few digits are taken for a typing error. */
const minPinLength = 8

/** A name as requests give it: with `@sha256:…` behind it, it means one version and no other. */
export interface WantedName {
  readonly name: string
  /** The beginning of a digest; null when it cannot be one, and nothing is meant by it. */
  readonly digest?: string | null
}

/** The name that means one version of a character and no other. */
export function pinnedName(name: string, digest: string): string {
  return `${name}${pinMark}${digest}`
}

/** Reads a name that may pin a version by its digest, or by the first 8 digits of it or more. */
export function readWantedName(text: string): WantedName {
  const mark = text.lastIndexOf(pinMark)
  if (mark === -1) return { name: text.trim() }
  const digest = text.slice(mark + pinMark.length).trim()
  const isDigest = new RegExp(`^[0-9a-f]{${minPinLength},64}$`, 'i').test(digest)
  return { name: text.slice(0, mark).trim(), digest: isDigest ? digest.toLowerCase() : null }
}

/**
 * Whether a caller may read the whole card: its prompt, its lore, its examples. A folder's cards are the operator's
 * own; only what belongs to the caller's account is found as an upload in the first place.
 */
export function mayRead(caller: Pick<Key, 'scopes'>, { origin }: Pick<Character, 'origin'>): boolean {
  return origin !== 'folder' || caller.scopes.includes('admin')
}

/** The one answer to every name that does not resolve, whatever it looks like and whoever has a card of that name. */
export function unknownCharacter(): ApiError {
  return new ApiError(404, 'character_not_found', 'There is no character of this name here. Check the name.', {
    param: 'character',
  })
}

/** The refusal of a name that another of one's characters has. */
export function nameTaken(): ApiError {
  const message = 'You have a character of this name already. Replace it with PUT, or use another name.'
  return new ApiError(409, 'name_taken', message, { param: 'name' })
}
