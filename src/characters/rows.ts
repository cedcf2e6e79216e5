import type { CardAbout } from './cards/summary.ts'
import type { StoredCharacter } from './library/character.ts'
import type { SourceBytes } from './library/source-bytes.ts'
import { alwaysKept } from './policy.ts'

/** An uploaded character as the database keeps it. */
export interface CharacterRow {
  readonly name: string
  readonly digest: string
  readonly about: string
  readonly created: number
  readonly updated: number
}

/** The source of a version as the database keeps it: where an upload has it in pieces, `source` is empty. */
export interface SourceRow {
  readonly source: Buffer
  readonly upload: string | null
  /** Of all pieces. */
  readonly bytes: number | null
}

/** The first and the last digest that begin like this: any such text lies between it and it with the highest digits behind. */
export function digestsLike(beginning: string): readonly [first: string, last: string] {
  return [beginning, beginning.padEnd(64, 'f')]
}

/** The character that a row tells of. */
export function toCharacter({ name, digest, about, created, updated }: CharacterRow): StoredCharacter {
  const read: CardAbout = JSON.parse(about)
  return { name, digest, created, updated, origin: 'account', about: read }
}

/** The source that a row tells of. @param read gives the pieces of an upload */
export function toSource(
  { source, upload, bytes }: SourceRow,
  read: (upload: string) => AsyncIterable<Buffer>,
): SourceBytes {
  if (upload === null || bytes === null) return { length: source.length, pieces: [source] }
  return { length: bytes, pieces: read(upload) }
}

/**
 * Selects a page of characters, after the one with the account and the name in `$1` and `$2`, each with its versions, the
 * newest first, where it has more than are always kept. What `planPurge` reads.
 */
export const selectForPurge = `
  SELECT page.account, page.name, page.digest AS current, versions.digest, versions.bytes, versions.used
  FROM (
    SELECT account, name, digest, (
      SELECT count(*) FROM character_use
      WHERE character_use.account = characters.account AND character_use.name = characters.name
    ) AS count
    FROM characters WHERE (account, name) > ($1, $2) ORDER BY account, name LIMIT 50
  ) AS page
  LEFT JOIN character_use AS versions ON versions.account = page.account AND versions.name = page.name
    AND page.count > ${alwaysKept}
  ORDER BY page.account, page.name, versions.uploaded DESC, versions.digest`
