import type { AuditEntry } from '../audit/record.ts'
import { ApiError } from '../errors.ts'
import { type CharacterCeilings, type CharacterKey, shownDigest, type VersionKey } from './library/character.ts'

// What the stores of all engines decide alike: they read rows, ask here, and write what comes of it. Times are Unix seconds.

/** How many versions of a character are kept whether they are used or not: the newest. */
export const alwaysKept = 20
/** For how many days after its last use an older version is kept. */
const keptDays = 90
const day = 86_400

/** Versions and bytes that one transaction removes at most, though always one: others wait for it. */
const maxRemovedVersions = 10
const maxRemovedBytes = 16 * 1024 ** 2

/** The characters of an account and the bytes of all their versions. */
export interface Kept {
  readonly characters: number
  readonly bytes: number
}

/**
 * Lets an account add to its characters, unless it would then have more than it may. What adds nothing is never refused.
 * @throws ApiError 429; no time to wait is told, since waiting frees nothing
 */
export function checkCharacterLimits(ceilings: CharacterCeilings, kept: Kept, added: Kept): void {
  const { characters = Infinity, bytes = Infinity } = ceilings
  if (added.characters > 0 && kept.characters + added.characters > characters) {
    const message = `The limit "characters" of ${characters} is reached: the account has as many or more. Delete some, or ask the operator for more.`
    throw new ApiError(429, 'characters_limit', message)
  }
  if (added.bytes === 0 || kept.bytes + added.bytes <= bytes) return
  const message = `The limit "character_bytes" is ${bytes}; all versions of the account's characters have ${kept.bytes} bytes, and this card has ${added.bytes}. Delete some, or ask the operator for more.`
  throw new ApiError(429, 'character_bytes_limit', message)
}

/** What is put on record of a purge: an entry for each character, with the digests of the versions that are gone. */
export function purgeEntries(removed: readonly VersionKey[]): readonly AuditEntry[] {
  const ofCharacter = Map.groupBy(removed, ({ account, name }) => `${account} ${name}`)
  return [...ofCharacter.values()].flatMap(([first, ...more]) => {
    if (!first) return []
    const { account, name } = first
    const before = { digests: [first, ...more].map(({ digest }) => shownDigest(digest)) }
    return [{ action: 'character.purged', target: name, account: { id: account }, before, after: null }]
  })
}

/** The first moment of the day of a moment: one use a day is noted. */
export function dayBegin(moment: number): number {
  return moment - (moment % day)
}

/** The moment since which a version must have been used to be kept now, where it is not among the newest. */
export function keptIfUsedSince(now: number): number {
  return dayBegin(now) - keptDays * day
}

/** A character as the purge sees it, with one of its versions; without one, where it has few. */
export interface PurgeRow extends CharacterKey {
  /** The digest that is played now. */
  readonly current: string
  readonly digest: string | null
  readonly bytes: number | null
  readonly used: number | null
}

/** What of a page of characters is to be removed, and from where to go on. */
export interface PurgePlan {
  readonly surplus: readonly VersionKey[]
  /** The last character that is done; null where none is. */
  readonly after: CharacterKey | null
  /** Whether no character comes after the page. */
  readonly isLast: boolean
}

/**
 * Finds the versions that are not kept any more: beyond the newest, not used lately, and not what is played now.
 * @param rows a page of characters in order, each with its versions, the newest first
 * @param begin the character that the page came after
 */
export function planPurge(rows: readonly PurgeRow[], usedSince: number, begin: CharacterKey | null): PurgePlan {
  const surplus: VersionKey[] = []
  let bytes = 0
  let done = begin
  for (const versions of Map.groupBy(rows, ({ account, name }) => `${account} ${name}`).values()) {
    for (const version of surplusIn(versions, usedSince)) {
      bytes += version.bytes
      // The rest of this character is for the next time.
      const isEnough = surplus.length === maxRemovedVersions || (surplus.length > 0 && bytes > maxRemovedBytes)
      if (isEnough) return { surplus, after: done, isLast: false }
      surplus.push(version.key)
    }
    done = versions[0] ?? done
  }
  return { surplus, after: done, isLast: rows.length === 0 }
}

/** Of one character's versions, the newest first, those that are not kept. */
function surplusIn(versions: readonly PurgeRow[], usedSince: number) {
  return versions.slice(alwaysKept).flatMap(({ account, name, current, digest, bytes, used }) => {
    if (digest === null || digest === current || (used !== null && used >= usedSince)) return []
    return [{ key: { account, name, digest }, bytes: bytes ?? 0 }]
  })
}
