import { hash, randomUUID } from 'node:crypto'
import type { Queries, Transaction } from '../storage/postgres/database.ts'
import { versionsEpoch } from '../storage/postgres/replicas.ts'
import type { PlantsVersion } from './plant.ts'
import { isByTag, sharersOf } from './rows.ts'

/**
 * Gives the plants of these accounts a new version, in the transaction that changes the plants. Versions are random, because
 * counted versions would repeat after a backup is restored. The rows of the versions stay locked until the transaction ends, so
 * that a version never stands for two states of the plants.
 */
export function renewVersions(sql: Transaction, accounts: Iterable<number>) {
  const rows = [...new Set(accounts)].toSorted((a, b) => a - b).map((account) => ({ account }))
  return sql`
    INSERT INTO plant_versions (account, version)
    SELECT account, ${randomUUID()} FROM json_to_recordset(${JSON.stringify(rows)}::text::json) AS changed (account BIGINT)
    ON CONFLICT (account) DO UPDATE SET version = excluded.version`
}

/**
 * The version of all plants that an account sees: its own plants, and plants that other accounts share with it. Null while a
 * replica of an older release runs, because this replica renews no versions. Null also for shares by tag, as `PlantStore.version`.
 */
export async function readVersion(sql: Queries, account: number): Promise<PlantsVersion | null> {
  const [epoch, seen] = await Promise.all([
    versionsEpoch(sql),
    sql<{ account: number; tag: string | null; version: string | null }[]>`
      SELECT seen.account, tag, version FROM (
        SELECT ${account}::bigint AS account, NULL AS tag UNION ALL SELECT owner, tag FROM grants WHERE grantee = ${account}
      ) AS seen LEFT JOIN plant_versions ON plant_versions.account = seen.account
      ORDER BY seen.account, tag`,
  ])
  const grants = seen.flatMap(({ account: owner, tag }) => (tag === null ? [] : [{ owner, tag }]))
  if (epoch === null || sharersOf(grants).some(isByTag)) return null
  const all = [account, epoch, ...seen.map((row) => [row.account, row.tag, row.version])]
  return hash('sha256', JSON.stringify(all), 'base64url')
}
