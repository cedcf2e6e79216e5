import { join } from 'node:path'
import Database from 'better-sqlite3'
import type { Limits } from '../../src/limits/limits.ts'
import { openSqliteStores } from '../../src/storage/stores.ts'

/** A row of the ledger, as a test reads it. */
export interface LedgerRow {
  readonly id: string
  readonly state: string
  readonly reserved_tokens: number
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly tokens_exact: number
  readonly first_token_ms: number | null
  readonly model_used: string | null
  readonly character: string | null
  readonly key_id: string
  readonly key_prefix: string
}

/** Makes a key of the account `owner` with limits of its own. */
export async function makeLimitedKey(dataDirectory: string, limits: Limits): Promise<string> {
  const stores = openSqliteStores(join(dataDirectory, 'conservatory.db'))
  try {
    return (await stores.access.createKey({ account: 'owner', scopes: ['plants:read', 'chat'], limits })).secret
  } finally {
    await stores.close()
  }
}

/** Reads the database of a service while it runs. */
function reading<T>(dataDirectory: string, read: (database: Database.Database) => T): T {
  const database = new Database(join(dataDirectory, 'conservatory.db'), { readonly: true })
  try {
    return read(database)
  } finally {
    database.close()
  }
}

/** The ledger, oldest first. */
export function ledgerRows(dataDirectory: string): readonly LedgerRow[] {
  return reading(dataDirectory, (database) =>
    database.prepare<[], LedgerRow>('SELECT * FROM requests ORDER BY created, id').all(),
  )
}

/** What the subjects whose names begin so have spent, each. */
export function spentBy(dataDirectory: string, prefix: string): readonly number[] {
  return reading(dataDirectory, (database) =>
    database
      .prepare<[string], number>('SELECT SUM(tokens) FROM spend WHERE subject GLOB ? GROUP BY subject ORDER BY 1')
      .pluck()
      .all(`${prefix}*`),
  )
}
