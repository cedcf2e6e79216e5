import type { Queries, Transaction } from '../storage/postgres/database.ts'
import { type PlantTaker, type PortablePlant, type PortableRow, takenId, toPortable } from './portable.ts'

/** Plants that are read or written at once. */
const batchSize = 1000
/** Before every id that there can be. */
const beforeAll = -(2 ** 53)

/** Hands over all plants of an account. All of them are to be of one moment: by a snapshot, or a lock on the account. */
export async function exportPlants(sql: Queries, account: number, taker: PlantTaker): Promise<void> {
  const [counted] = await sql<{ count: number }[]>`SELECT count(*) FROM plants WHERE account = ${account}`
  taker.begin(counted?.count ?? 0)
  for (let after = beforeAll; ; ) {
    const rows = await sql<PortableRow[]>`
      SELECT id, name, tag FROM plants WHERE account = ${account} AND id > ${after} ORDER BY id LIMIT ${batchSize}`
    taker.add(rows.map(toPortable))
    const last = rows.at(-1)
    if (!last) break
    after = last.id
  }
  taker.end()
}

/**
 * Adds plants to an account.
 * @throws AccessError for an id that is taken
 */
export async function importPlants(
  sql: Transaction,
  account: number,
  plants: readonly PortablePlant[],
  place: (index: number) => string,
): Promise<void> {
  for (let start = 0; start < plants.length; start += batchSize) {
    const batch = plants.slice(start, start + batchSize)
    const inserted = await sql<{ id: number }[]>`
      INSERT INTO plants (account, id, name, tag)
      SELECT ${account}::bigint, x.id, x.name, x.tag
      FROM json_to_recordset(${JSON.stringify(batch)}::text::json) AS x(id bigint, name text, tag text)
      ON CONFLICT DO NOTHING RETURNING id`
    if (inserted.length === batch.length) continue
    const left = inserted.map((row) => row.id)
    const index = batch.findIndex((plant, at) => !left.includes(plant.id) || isRepeated(batch, plant, at))
    throw takenId(place(start + index), batch[index]?.id)
  }
}

/**
 * Removes an account's plants, once `keeper` has taken them, its idempotency keys and its grants.
 * @param sql a transaction that has locked the account, so that nobody adds to them meanwhile
 */
export async function removePlants(sql: Transaction, account: number, keeper: PlantTaker): Promise<void> {
  await exportPlants(sql, account, keeper)
  await sql`DELETE FROM idempotency_keys WHERE account = ${account}`
  await sql`DELETE FROM plants WHERE account = ${account}`
  await sql`DELETE FROM grants WHERE owner = ${account} OR grantee = ${account}`
}

function isRepeated(plants: readonly PortablePlant[], { id }: PortablePlant, index: number): boolean {
  return plants.findIndex((plant) => plant.id === id) < index
}
