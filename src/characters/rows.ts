import type { CardAbout } from './cards/summary.ts'
import type { StoredCharacter } from './library/character.ts'
import type { SourceBytes } from './library/source-bytes.ts'
import { keptVersions } from './policy.ts'

/** An uploaded character in the database. */
export interface CharacterRow {
  readonly name: string
  readonly digest: string
  readonly about: string
  readonly created: number
  readonly updated: number
}

/** The source of a version in the database. `source` is empty if the source is stored in the pieces of an upload. */
export interface SourceRow {
  readonly source: Buffer
  readonly upload: string | null
  /** The number of bytes of all pieces. */
  readonly bytes: number | null
}

/** The bounds for BETWEEN that match all digests with this beginning. */
export function digestRange(beginning: string): readonly [first: string, last: string] {
  return [beginning, beginning.padEnd(64, 'f')]
}

/** The character of a row. */
export function toCharacter({ name, digest, about, created, updated }: CharacterRow): StoredCharacter {
  const read: CardAbout = JSON.parse(about)
  return { name, digest, created, updated, origin: 'account', about: read }
}

/** The source of a row. @param read reads the pieces of an upload */
export function toSource(
  { source, upload, bytes }: SourceRow,
  read: (upload: string) => AsyncIterable<Buffer>,
): SourceBytes {
  if (upload === null || bytes === null) return { length: source.length, pieces: [source] }
  return { length: bytes, pieces: read(upload) }
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
