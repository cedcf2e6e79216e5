import type { AuditEntry } from '../audit/record.ts'
import { ApiError } from '../errors.ts'
import { type CharacterKey, type CharacterLimits, shownDigest, type VersionKey } from './library/character.ts'

// Decisions that the stores of both databases share. A store reads rows, calls these functions, and writes the result. Times are
// Unix seconds.

/** The number of newest versions of a character that are kept, whether they are used or not. */
export const keptVersions = 20
/** Days for which an older version is kept after its last use. */
const keptDays = 90
const day = 86_400

/** The most versions and bytes that one transaction removes: other writes wait for it. A single version may have more bytes. */
const maxRemovedVersions = 10
const maxRemovedBytes = 16 * 1024 ** 2

/**
 * The most versions, besides the current one, that one transaction of a deletion removes: in SQLite this takes some 15 ms. A
 * character with more versions first loses its oldest ones in transactions of their own.
 */
export const maxDeletedVersions = 50

/** The number of an account's characters, and the bytes of all their versions. */
export interface CharacterUsage {
  readonly characters: number
  readonly bytes: number
}

/**
 * Checks the limits before characters or bytes are added. A request that adds nothing is never refused.
 * @throws ApiError 429 without `Retry-After`, because waiting does not help
 */
export function checkCharacterLimits(limits: CharacterLimits, usage: CharacterUsage, added: CharacterUsage): void {
  const { characters = Infinity, bytes = Infinity } = limits
  if (added.characters > 0 && usage.characters + added.characters > characters) {
    const message = `The limit "characters" of ${characters} is reached: the account has as many or more. Delete some, or ask the operator for more.`
    throw new ApiError(429, 'characters_limit', message)
  }
  if (added.bytes === 0 || usage.bytes + added.bytes <= bytes) return
  const message = `The limit "character_bytes" is ${bytes}; all versions of the account's characters have ${usage.bytes} bytes, and this card has ${added.bytes}. Delete some, or ask the operator for more.`
  throw new ApiError(429, 'character_bytes_limit', message)
}

/** The audit records of a purge, or of a part of a deletion: one for each character, with the digests of its removed versions. */
export function purgeEntries(removed: readonly VersionKey[]): readonly AuditEntry[] {
  const ofCharacter = Map.groupBy(removed, ({ account, name }) => `${account} ${name}`)
  return [...ofCharacter.values()].flatMap(([first, ...more]) => {
    if (!first) return []
    const { account, name } = first
    const before = { digests: [first, ...more].map(({ digest }) => shownDigest(digest)) }
    return [{ action: 'character.purged', target: name, account: { id: account }, before, after: null }]
  })
}

/** The beginning of the UTC day of a moment. One use of a version is recorded for each day. */
export function dayBegin(moment: number): number {
  return moment - (moment % day)
}

/** An older version expires if it was not used since this moment. */
export function keptIfUsedSince(now: number): number {
  return dayBegin(now) - keptDays * day
}

/**
 * A row that a purge reads: a character and one of its versions. A character with at most `keptVersions` versions has one row,
 * with null for the version.
 */
export interface PurgeRow extends CharacterKey {
  /** The digest of the current version. */
  readonly current: string
  readonly digest: string | null
  readonly bytes: number | null
  readonly used: number | null
}

/** The versions to remove from a page of characters, and the place to continue. */
export interface PurgePlan {
  readonly surplus: readonly VersionKey[]
  /** The character after which the next step continues; null to begin with the first. */
  readonly after: CharacterKey | null
  /** Whether the page is empty, because no character is left. */
  readonly isLast: boolean
}

/**
 * Finds expired versions, as many as one transaction removes. An expired version is not among the newest 20, was not used since
 * `usedSince`, and is not the current one.
 * @param rows a page of characters in order, each with its versions, the newest first
 * @param begin the character before the page; null for the first page
 */
export function planPurge(rows: readonly PurgeRow[], usedSince: number, begin: CharacterKey | null): PurgePlan {
  const surplus: VersionKey[] = []
  let bytes = 0
  let done = begin
  for (const versions of Map.groupBy(rows, ({ account, name }) => `${account} ${name}`).values()) {
    for (const version of surplusIn(versions, usedSince)) {
      bytes += version.bytes
      // The next step removes the other expired versions of this character.
      const isEnough = surplus.length === maxRemovedVersions || (surplus.length > 0 && bytes > maxRemovedBytes)
      if (isEnough) return { surplus, after: done, isLast: false }
      surplus.push(version.key)
    }
    done = versions[0] ?? done
  }
  return { surplus, after: done, isLast: rows.length === 0 }
}

/** The expired versions of a character. @param versions all its versions, the newest first */
function surplusIn(versions: readonly PurgeRow[], usedSince: number) {
  return versions.slice(keptVersions).flatMap(({ account, name, current, digest, bytes, used }) => {
    if (digest === null || digest === current || (used !== null && used >= usedSince)) return []
    return [{ key: { account, name, digest }, bytes: bytes ?? 0 }]
  })
}

/** A page of a purge ends with the character that has this version of the page: 100,000 rows would take 200 ms. */
const maxVersionsOfPage = 2000

/**
 * Selects the rows of `planPurge`: a page of characters after the account `$1` and the name `$2`. A character with more than
 * `keptVersions` versions has a row for each version, the newest first; any other character has one row.
 */
export const selectForPurge = `
  SELECT page.account, page.name, page.digest AS current, versions.digest, versions.bytes, versions.used
  FROM (
    SELECT account, name, digest, count, sum(count) OVER (ORDER BY account, name) - count AS earlier
    FROM (
      SELECT account, name, digest, (
        SELECT count(*) FROM character_use
        WHERE character_use.account = characters.account AND character_use.name = characters.name
      ) AS count
      FROM characters WHERE (account, name) > ($1, $2) ORDER BY account, name LIMIT 50
    ) AS counted
  ) AS page
  LEFT JOIN character_use AS versions ON versions.account = page.account AND versions.name = page.name
    AND page.count > ${keptVersions}
  WHERE page.earlier < ${maxVersionsOfPage}
  ORDER BY page.account, page.name, versions.uploaded DESC, versions.digest`
