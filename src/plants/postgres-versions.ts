import { hash, randomUUID } from 'node:crypto'
import type { Queries, Transaction } from '../storage/postgres/database.ts'
import { versionsEpoch } from '../storage/postgres/replicas.ts'
import type { PlantsVersion } from './plant.ts'

/**
 * Gives what these accounts see a new version, in the transaction that changes it. No two are alike, as counts would be once an
 * older state was restored; and its row is locked until the transaction is over, so that there is one state to each version.
 */
export function renewVersions(sql: Transaction, accounts: Iterable<number>) {
  const rows = [...new Set(accounts)].toSorted((a, b) => a - b).map((account) => ({ account }))
  return sql`
    INSERT INTO plant_versions (account, version)
    SELECT account, ${randomUUID()} FROM json_to_recordset(${JSON.stringify(rows)}::text::json) AS changed (account BIGINT)
    ON CONFLICT (account) DO UPDATE SET version = excluded.version`
}

/** The version of all that an account sees: by its own, and of those who share with it. Null where some write without telling. */
export async function readVersion(sql: Queries, account: number): Promise<PlantsVersion | null> {
  const [epoch, seen] = await Promise.all([
    versionsEpoch(sql),
    sql<{ account: number; tag: string | null; version: string | null }[]>`
      SELECT seen.account, tag, version FROM (
        SELECT ${account}::bigint AS account, NULL AS tag UNION ALL SELECT owner, tag FROM grants WHERE grantee = ${account}
      ) AS seen LEFT JOIN plant_versions ON plant_versions.account = seen.account
      ORDER BY seen.account, tag`,
  ])
  if (epoch === null) return null
  const all = [account, epoch, ...seen.map((row) => [row.account, row.tag, row.version])]
  return hash('sha256', JSON.stringify(all), 'base64url')
}
