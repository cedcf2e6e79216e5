import { withAuditRecords } from '../audit/postgres.ts'
import type { Actor } from '../audit/record.ts'
import type { PostgresDatabase, Queries, Transaction } from '../storage/postgres/database.ts'
import { escapeNul, unescapeNul } from '../storage/postgres/texts.ts'
import { unixSeconds } from '../time.ts'
import type { CharacterKey, NewCharacter, PurgeStep, VersionKey } from './library/character.ts'
import { isLarge, versionRemoved } from './pieces.ts'
import { type CharacterUsage, dayBegin, type PurgePlan, type PurgeRow, planPurge, purgeEntries } from './policy.ts'
import { assignPieces } from './postgres-pieces.ts'
import { selectForPurge } from './rows.ts'

const nothing = Buffer.alloc(0)

/** The number of characters and bytes of an account. Until the transaction ends, no other transaction can increase them. */
export async function lockUsage(sql: Transaction, account: number): Promise<CharacterUsage> {
  // The lock has its own table. With a lock on the account's row, writes of plants and of characters would block each other while
  // a commit waits for the standby.
  await sql`
    INSERT INTO upload_locks (account) VALUES (${account}) ON CONFLICT (account) DO UPDATE SET account = excluded.account`
  return usageOf(sql, account)
}

/** The current number of characters and bytes of an account, without a lock. */
export async function usageOf(sql: Queries, account: number): Promise<CharacterUsage> {
  const [usage] = await sql<CharacterUsage[]>`
    SELECT (SELECT count(*) FROM characters WHERE account = ${account}) AS characters,
      (SELECT coalesce(sum(bytes), 0)::BIGINT FROM character_use WHERE account = ${account}) AS bytes`
  return usage ?? { characters: 0, bytes: 0 }
}

/** Whether an account has a version. @param isLocked whether to lock the version against removal until the transaction ends */
export async function hasVersion(
  sql: Queries,
  account: number,
  character: NewCharacter,
  isLocked = false,
): Promise<boolean> {
  const found = await sql`
    SELECT 1 FROM character_versions
    WHERE account = ${account} AND name = ${escapeNul(character.name)} AND digest = ${character.digest}
    ${isLocked ? sql`FOR KEY SHARE` : sql``}`
  return found.length > 0
}

/**
 * Adds a version, or marks an existing version as the newest.
 * @param upload the upload with the pieces of a large source; null for a small source, and for a version that exists
 * @throws ApiError 503 if a large version was removed since the upload began
 */
export async function addVersion(
  sql: Transaction,
  account: number,
  character: NewCharacter,
  upload: string | null,
): Promise<void> {
  const { digest, source } = character
  const name = escapeNul(character.name)
  const now = unixSeconds()
  if (isLarge(source) && upload === null) {
    // A large source is never sent in one statement. The lock keeps a purge from removing the version before the commit.
    if (!(await hasVersion(sql, account, character, true))) throw versionRemoved()
  } else {
    const added = await sql`
      INSERT INTO character_versions (account, name, digest, source, created)
      VALUES (${account}, ${name}, ${digest}, ${upload === null ? source : nothing}, ${now})
      ON CONFLICT DO NOTHING RETURNING name`
    if (upload !== null && added.length > 0) {
      await assignPieces(sql, upload, { account, name: character.name, digest }, source.length)
    }
  }
  await sql`
    INSERT INTO character_use (account, name, digest, bytes, uploaded)
    SELECT ${account}::BIGINT, ${name}::TEXT, ${digest}::TEXT, ${source.length}::BIGINT,
      greatest(${now}::BIGINT, 1 + coalesce(max(uploaded), 0))
    FROM character_use WHERE account = ${account} AND name = ${name}
    ON CONFLICT (account, name, digest) DO UPDATE SET uploaded = excluded.uploaded`
}

/** The oldest versions of a character besides the version `current`, at most `limit`. */
export async function oldestVersions(sql: Queries, current: VersionKey, limit: number): Promise<readonly VersionKey[]> {
  const { account, name, digest } = current
  const rows = await sql<{ digest: string }[]>`
    SELECT digest FROM character_use
    WHERE account = ${account} AND name = ${escapeNul(name)} AND digest <> ${digest}
    ORDER BY uploaded, digest LIMIT ${limit}`
  return rows.map((row) => ({ account, name, digest: row.digest }))
}

/** Removes versions. */
export async function removeVersions(sql: Transaction, versions: readonly VersionKey[]): Promise<void> {
  await sql`
    DELETE FROM character_versions WHERE (account, name, digest) IN (
      SELECT account, name, digest FROM ${listed(sql, versions)})`
}

/** Records that versions were used, always in the same order, so that two replicas cannot deadlock. */
export async function noteUses(sql: Transaction, versions: readonly VersionKey[], moment: number): Promise<void> {
  await sql`
    UPDATE character_use SET used = ${moment}
    FROM (SELECT account, name, digest FROM ${listed(sql, versions)} ORDER BY account, name, digest) AS noted
    WHERE character_use.account = noted.account AND character_use.name = noted.name
      AND character_use.digest = noted.digest AND coalesce(character_use.used, 0) < ${dayBegin(moment)}`
}

/** See `CharacterStore.purge`. If no version has expired, it locks no row of a character. */
export async function purge(
  database: PostgresDatabase,
  begin: CharacterKey | null,
  usedSince: number,
  by: Actor,
): Promise<PurgeStep> {
  if (begin === null) await database.transaction(noteUnknown)
  const { surplus, ...progress } = await database.read((sql) => plan(sql, begin, usedSince))
  if (surplus.length === 0) return { removed: [], ...progress }
  const removed = await withAuditRecords(database, async (sql, record) => {
    const versions = listed(sql, surplus)
    // The rows of the characters are locked. An upload that makes one of these versions current again writes such a row, even in
    // a replica of an older release, and waits for the lock.
    await sql`
      SELECT name FROM characters
      WHERE (account, name) IN (SELECT account, name FROM ${versions}) ORDER BY account, name FOR UPDATE`
    const gone = await sql<VersionKey[]>`
      DELETE FROM character_versions WHERE (account, name, digest) IN (
        SELECT versions.account, versions.name, versions.digest FROM ${versions}
        JOIN character_use ON character_use.account = versions.account AND character_use.name = versions.name
          AND character_use.digest = versions.digest AND (used IS NULL OR used < ${usedSince})
        JOIN characters ON characters.account = versions.account AND characters.name = versions.name
          AND characters.digest <> versions.digest)
      RETURNING account, name, digest`
    const named = gone.map((version) => ({ ...version, name: unescapeNul(version.name) }))
    for (const entry of purgeEntries(named)) await record(by, entry)
    return named
  })
  return { removed, ...progress }
}

async function plan(sql: Queries, begin: CharacterKey | null, usedSince: number): Promise<PurgePlan> {
  const { account, name } = begin ?? { account: 0, name: '' }
  const rows = await sql.unsafe<PurgeRow[]>(selectForPurge, [account, name === '' ? '' : escapeNul(name)])
  return planPurge(
    rows.map((row) => ({ ...row, name: unescapeNul(row.name) })),
    usedSince,
    begin,
  )
}

/** A list of versions as an SQL table expression. */
function listed(sql: Transaction, versions: readonly VersionKey[]) {
  const list = versions.map((version) => ({ ...version, name: escapeNul(version.name) }))
  return sql`json_to_recordset(${JSON.stringify(list)}::text::json) AS versions (account BIGINT, name TEXT, digest TEXT)`
}

/** Adds rows to `character_use` for versions that a replica of an older release has stored meanwhile. They count as unused. */
async function noteUnknown(sql: Transaction): Promise<boolean> {
  await sql`
    INSERT INTO character_use (account, name, digest, bytes, uploaded)
    SELECT account, name, digest, octet_length(source), created FROM character_versions
    WHERE NOT EXISTS (
      SELECT 1 FROM character_use
      WHERE character_use.account = character_versions.account AND character_use.name = character_versions.name
        AND character_use.digest = character_versions.digest
    ) ON CONFLICT DO NOTHING`
  return true
}
