import type { Key } from '../../src/access/access.ts'
import type { Limits } from '../../src/limit-values.ts'
import { openStoresOf } from './test-database.ts'
import type { TestSql } from './test-sql.ts'

/** A key as a store returns it. */
export function keyOf(id: string, account: number, ofKey: Limits = {}, ofAccount: Limits = {}): Key {
  const owner = {
    id: account,
    name: `account ${account}`,
    created: 0,
    suspended: null,
    limits: ofAccount,
    models: null,
    timeZone: null,
  }
  return {
    id,
    account: owner,
    prefix: `cv_${id}`,
    name: null,
    scopes: ['chat'],
    created: 0,
    expires: null,
    revoked: null,
    lastUsed: null,
    limits: ofKey,
    ownLimits: ofKey,
    subject: id,
    maker: null,
    models: null,
  }
}

/** The columns of the ledger that tests read. */
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
  const stores = await openStoresOf(dataDirectory)
  try {
    return (await stores.access.createKey({ account: 'owner', scopes: ['plants:read', 'chat'], limits })).secret
  } finally {
    await stores.close()
  }
}

/** The ledger, oldest first. */
export function ledgerRows(sql: TestSql): Promise<readonly LedgerRow[]> {
  return sql.run<LedgerRow>('SELECT * FROM requests ORDER BY created, id')
}

/** The spent tokens of each key or account whose name in the table `spend` begins with a prefix. */
export async function spentBy(sql: TestSql, prefix: string): Promise<readonly number[]> {
  const rows = await sql.run<{ readonly tokens: number }>(
    'SELECT CAST(SUM(tokens) AS BIGINT) AS tokens FROM spend WHERE subject LIKE ? GROUP BY subject ORDER BY 1',
    `${prefix}%`,
  )
  return rows.map(({ tokens }) => tokens)
}
