import { timingSafeEqual } from 'node:crypto'
import { lowerOf, storedAccountLimits, storedLimits } from '../limit-values.ts'
import { type Statement, sql } from '../storage/scripts.ts'
import { type Account, isScope, type Key } from './access.ts'
import { storedModels } from './model-lists.ts'

/** An account as a row of the database. */
export interface AccountRow {
  readonly id: number
  readonly name: string
  readonly created: number
  readonly suspended: number | null
  readonly limits: string
  readonly models: string | null
  readonly time_zone: string | null
}

/** A key and its account as a row of the database. */
export interface KeyRow {
  readonly id: string
  readonly account: number
  readonly account_name: string
  readonly account_created: number
  readonly account_suspended: number | null
  readonly account_limits: string
  readonly account_models: string | null
  readonly account_time_zone: string | null
  readonly prefix: string
  readonly name: string | null
  readonly digest: string
  readonly scopes: string
  readonly created: number
  readonly expires: number | null
  readonly revoked: number | null
  readonly last_used: number | null
  readonly limits: string
  readonly models: string | null
  /** Null for a key that was made before keys had subjects: then the subject is the id. */
  readonly subject: string | null
  readonly maker: string | null
  readonly maker_limits: string | null
}

/** The columns that decide whether a key is a working key of the scope `admin`. */
export interface AdminRow extends Pick<KeyRow, 'scopes' | 'revoked' | 'expires'> {
  /** When the account of the key was suspended; null if it is not suspended. */
  readonly suspended: number | null
}

/**
 * SQL of the end of a key in Unix seconds: at its expiry, or at the end of its overlap with a successor. A key without an end has
 * the highest safe integer. The indexes of the table have this expression.
 */
export const endOfRow = sql`coalesce(CASE WHEN expires < revoked OR revoked IS NULL THEN expires ELSE revoked END, 9007199254740991)`

/** Selects rows for `toAccount`. It names the columns: a prepared statement with `*` fails after a newer release has added a column. */
export const selectAccounts = sql`SELECT id, name, created, suspended, limits, models, time_zone FROM accounts`

/** Selects every key with the scope `admin`, by an index of these keys alone. LIKE also matches longer names of scopes, so `holdsAdmin` checks the rows again. */
export const selectAdmins = sql`
  SELECT keys.scopes, keys.revoked, keys.expires, accounts.suspended
  FROM keys JOIN accounts ON accounts.id = keys.account WHERE keys.scopes LIKE '%admin%'`

/** Selects rows for `toKey`. @param models the SQL of the key's list of models */
const selectKeysWith = (models: Statement) => sql`
  SELECT keys.id, keys.account, keys.prefix, keys.name, keys.digest, keys.scopes, keys.created, keys.expires,
    keys.revoked, keys.last_used, keys.limits, keys.subject, keys.maker, keys.maker_limits, ${models} AS models,
    accounts.name AS account_name, accounts.created AS account_created, accounts.suspended AS account_suspended, accounts.limits AS account_limits, accounts.models AS account_models,
    accounts.time_zone AS account_time_zone
  FROM keys JOIN accounts ON accounts.id = keys.account`

/** Selects rows for `toKey`. */
export const selectKeys = selectKeysWith(sql`keys.models`)

/**
 * Selects rows for `toKey`, without the models of keys that have ended. SQLite needs 0.3 ms to read a list of 100 kB, and an
 * account may have thousands of ended keys.
 * @param now Unix seconds
 */
export function selectKeysWithoutEndedModels(now: number): Statement {
  return selectKeysWith(sql`CASE WHEN keys.revoked <= ${now} OR keys.expires <= ${now} THEN NULL ELSE keys.models END`)
}

/** The key of a row. */
export function toKey(row: KeyRow): Key {
  const ownLimits = storedLimits(row.limits)
  const maker = row.maker === null ? null : { subject: row.maker, limits: storedLimits(row.maker_limits ?? '{}') }
  return {
    id: row.id,
    account: {
      id: row.account,
      name: row.account_name,
      created: row.account_created,
      suspended: row.account_suspended,
      limits: storedAccountLimits(row.account_limits),
      models: storedModels(row.account_models),
      timeZone: row.account_time_zone,
    },
    prefix: row.prefix,
    name: row.name,
    scopes: row.scopes.split(',').filter(isScope),
    created: row.created,
    expires: row.expires,
    revoked: row.revoked,
    lastUsed: row.last_used,
    limits: lowerOf(ownLimits, maker?.limits),
    ownLimits,
    subject: row.subject ?? row.id,
    maker,
    models: storedModels(row.models),
  }
}

/** The key of a row that was found by this digest. The digests are compared again in constant time. */
export function keyWithDigest(row: KeyRow | undefined, digest: string): Key | undefined {
  return row && timingSafeEqual(Buffer.from(row.digest), Buffer.from(digest)) ? toKey(row) : undefined
}

/** The account of a row. */
export function toAccount({ time_zone: timeZone, ...row }: AccountRow): Account {
  return { ...row, limits: storedAccountLimits(row.limits), models: storedModels(row.models), timeZone }
}
