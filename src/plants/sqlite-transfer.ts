import type { Database } from 'better-sqlite3'
import { type PlantTaker, type PortablePlant, type PortableRow, takenId, toPortable } from './portable.ts'

/** What an account has in the tables of plants, in an order in which nothing is left that names something gone. */
const owned = [
  'DELETE FROM idempotency_keys WHERE account = $account',
  'DELETE FROM plants WHERE account = $account',
  'DELETE FROM grants WHERE owner = $account OR grantee = $account',
]

/** Hands over all plants of an account. To be called in a transaction, so that they are of one moment. */
export function exportPlants(database: Database, account: number, taker: PlantTaker): void {
  const count = database.prepare<[number], number>('SELECT count(*) FROM plants WHERE account = ?').pluck().get(account)
  const rows = database
    .prepare<[number], PortableRow>('SELECT id, name, tag FROM plants WHERE account = ? ORDER BY id')
    .iterate(account)
  try {
    taker.begin(count ?? 0)
    taker.add(portable(rows))
    taker.end()
  } finally {
    rows.return?.()
  }
}

/**
 * Adds plants to an account. To be called in a transaction, which what it throws must undo.
 * @throws AccessError for an id that is taken
 */
export function importPlants(
  database: Database,
  account: number,
  plants: readonly PortablePlant[],
  place: (index: number) => string,
): void {
  const insert = database.prepare(
    'INSERT INTO plants (account, id, name, tag) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING',
  )
  for (const [index, plant] of plants.entries()) {
    if (insert.run(account, plant.id, plant.name, plant.tag ?? null).changes === 0)
      throw takenId(place(index), plant.id)
  }
}

/** Removes an account's plants, once `keeper` has taken them, its idempotency keys and its grants. To be called in a transaction. */
export function removePlants(database: Database, account: number, keeper: PlantTaker): void {
  exportPlants(database, account, keeper)
  for (const statement of owned) database.prepare(statement).run({ account })
}

function* portable(rows: Iterable<PortableRow>): Iterable<PortablePlant> {
  for (const row of rows) yield toPortable(row)
}
