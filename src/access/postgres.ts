import { type Recorder, withAuditRecords } from '../audit/postgres.ts'
import { type Actor, type AuditAction, commandLine, serviceActor } from '../audit/record.ts'
import type { AccountLimits } from '../limit-values.ts'
import { ShortLivedCache } from '../storage/caches.ts'
import type { PostgresDatabase, Queries, Transaction } from '../storage/postgres/database.ts'
import { withoutStandby } from '../storage/postgres/replicas.ts'
import { unixSeconds } from '../time.ts'
import type {
  AccessStore,
  Account,
  AccountLimitChanges,
  Key,
  KeyName,
  KeyPosition,
  KeyRequest,
  LimitChanges,
  NewKey,
} from './access.ts'
import { accountChange, accountEntry, keyChange, newKeyEntry } from './entries.ts'
import { digestKey } from './key.ts'
import { type ModelList, modelsToStore } from './model-lists.ts'
import { type Counting, newKeys } from './new-key.ts'
import {
  checkAdminIsLeft,
  checkKeysLimit,
  keyIn,
  limitedKey,
  makerFrom,
  matchingKey,
  maxMatches,
  prefixesBeginningWith,
  revoked,
  rotated,
  withModels,
} from './policy.ts'
import { PostgresAccounts } from './postgres-accounts.ts'
import { refusalOf } from './refusals.ts'
import { endOfRow, type KeyRow, keyWithDigest, selectKeys, selectKeysWithoutEndedModels, toKey } from './rows.ts'

/** Keys for a list. The models are left out an hour after the end, because the server's clock may differ from the clock here. */
const selectListedKeys = selectKeysWithoutEndedModels('extract(epoch FROM now()) - 3600')

/** The time limit of a suspension, which may wait for other writers. */
const commandTimeoutMs = 30_000
/** The time limit of the deletion of an account, which may be large. */
const deletionTimeoutMs = 600_000

/** Accounts and keys in PostgreSQL. A change by another replica is seen here at most half a second later. */
export class PostgresAccessStore implements AccessStore {
  readonly #database: PostgresDatabase
  readonly #accounts = new PostgresAccounts()
  /** Keys by digest and by id. Unknown keys are not cached. */
  readonly #cache = new ShortLivedCache<Key>()

  constructor(database: PostgresDatabase) {
    this.#database = database
  }

  createAccount(name: string, limits?: AccountLimits, models?: ModelList | null, by = commandLine): Promise<Account> {
    return this.#change(async (sql, record) => {
      const account = await this.#accounts.create(sql, name, limits, models)
      await record(by, accountEntry('account.created', account))
      return account
    })
  }

  createFirstAccount(request: KeyRequest, by = serviceActor()): Promise<NewKey | null> {
    return this.#change(async (sql, record) => {
      // When several replicas start for the first time, one creates the account. The others wait for this lock, and then find
      // the account.
      await sql`SELECT value FROM counters WHERE name = 'accounts' FOR UPDATE`
      if ((await this.#accounts.list(sql)).length > 0) return null
      const account = await this.#accounts.create(sql, request.account)
      const made = await this.#createKey(sql, request)
      await record(by, accountEntry('account.created', account))
      await record(by, newKeyEntry(made.key))
      return made
    })
  }

  listAccounts(): Promise<readonly Account[]> {
    return this.#database.read((sql) => this.#accounts.list(sql))
  }

  suspendAccount(name: string, by = commandLine): Promise<Account> {
    return this.#change(async (sql, record) => {
      const before = await this.#accounts.named(sql, name)
      // The wait for the account's lock may be long. So it comes before `#withAdminLeft`, which takes a lock that blocks every
      // rotation and revocation of keys.
      await this.#accounts.lock(sql, before)
      const after = await this.#withAdminLeft(sql, () => this.#accounts.suspend(sql, name))
      return recordChange('account.suspended', before, after, record, by)
    }, commandTimeoutMs)
  }

  resumeAccount(name: string, by = commandLine): Promise<Account> {
    return this.#change(async (sql, record) => {
      const before = await this.#accounts.named(sql, name)
      return recordChange('account.resumed', before, await this.#accounts.resume(sql, name), record, by)
    })
  }

  limitAccount(
    name: string,
    changes: AccountLimitChanges,
    models?: ModelList | null,
    by = commandLine,
  ): Promise<Account> {
    return this.#change(async (sql, record) => {
      const before = await this.#accounts.named(sql, name)
      return recordChange('account.limited', before, await this.#accounts.limit(sql, name, changes, models), record, by)
    })
  }

  /**
   * Deletes an account with its keys in one transaction. Its usage stays in the ledger.
   * @param removeAccountData removes the account's data of other features, in the same transaction, while the account is locked;
   *   returns false to keep the account
   * @returns whether the account is deleted
   * @throws AccessError for an unknown account, and for the account of the last working key of the scope `admin`
   */
  async deleteAccount(
    name: string,
    removeAccountData: (sql: Transaction, account: number) => Promise<boolean>,
    by = commandLine,
  ): Promise<boolean> {
    return this.#change(async (sql, record) => {
      const account = await this.#accounts.named(sql, name)
      await this.#accounts.lock(sql, account)
      // The removal may take long. So it runs before `#withAdminLeft`, which blocks every rotation and revocation of keys.
      if (!(await removeAccountData(sql, account.id))) return false
      await this.#withAdminLeft(sql, () => this.#accounts.remove(sql, account))
      await record(by, accountEntry('account.deleted', account))
      return true
    }, deletionTimeoutMs)
  }

  createKey(request: KeyRequest, by = commandLine, limit?: number): Promise<NewKey> {
    return this.#change(async (sql, record) => {
      const account = await this.#accounts.named(sql, request.account)
      await this.#accounts.lockKeys(sql, account)
      await checkLimit(sql, limit, account.id)
      const maker = request.madeBy === undefined ? null : makerFrom(await keyWithId(sql, request.madeBy))
      const made = await this.#createKey(sql, request, { maker })
      await record(by, newKeyEntry(made.key))
      return made
    })
  }

  async listKeys(account?: string): Promise<readonly Key[]> {
    return this.#database.read(async (sql) => {
      const owner = account === undefined ? null : (await this.#accounts.named(sql, account)).id
      const rows = await sql<KeyRow[]>`
        ${sql.unsafe(selectKeys)} WHERE ${owner}::bigint IS NULL OR keys.account = ${owner}
        ORDER BY keys.created, keys.id`
      return rows.map(toKey)
    })
  }

  async keysAfter(account: number, after: KeyPosition | undefined, limit: number): Promise<readonly Key[]> {
    const { created = 0, id = '' } = after ?? {}
    const rows = await this.#database.read(
      (sql) => sql<KeyRow[]>`
        ${sql.unsafe(selectListedKeys)} WHERE keys.account = ${account} AND (keys.created, keys.id) > (${created}, ${id})
        ORDER BY keys.created, keys.id LIMIT ${limit}`,
    )
    return rows.map(toKey)
  }

  rotateKey(name: KeyName, overlapSeconds: number, by = commandLine, limit?: number): Promise<NewKey> {
    return this.#change(async (sql, record) => {
      const before = await this.#locked(sql, name)
      const { old, successor } = rotated(before, overlapSeconds, unixSeconds())
      if (overlapSeconds > 0) await checkLimit(sql, limit, before.account.id)
      const made = await this.#withAdminLeft(sql, async () => {
        await setRevoked(sql, old)
        return this.#createKey(sql, successor, before)
      })
      await record(by, keyChange('key.rotated', before, old, made.key))
      return made
    })
  }

  revokeKey(name: KeyName, by = commandLine): Promise<Key> {
    return this.#change(async (sql, record) => {
      const before = await this.#locked(sql, name)
      const key = await this.#withAdminLeft(sql, () => setRevoked(sql, revoked(before, unixSeconds())))
      await record(by, keyChange('key.revoked', before, key))
      return key
    })
  }

  limitKey(name: KeyName, changes: LimitChanges, models?: ModelList | null, by = commandLine): Promise<Key> {
    return this.#change(async (sql, record) => {
      const before = await this.#locked(sql, name)
      const key = withModels(limitedKey(before, changes), models)
      await sql`
        UPDATE keys SET limits = ${JSON.stringify(key.ownLimits)}, models = ${modelsToStore(key.models)}
        WHERE id = ${key.id}`
      await sql`
        UPDATE keys SET maker_limits = ${JSON.stringify(key.limits)}
        WHERE account = ${key.account.id} AND maker = ${key.subject}`
      await record(by, keyChange('key.limited', before, key))
      return key
    })
  }

  countKeys(account: number, enough?: number): Promise<number> {
    return this.#database.read((sql) => countWorking(sql, account, enough))
  }

  knownKey(digest: string): Key | undefined {
    return this.#cache.get(digest)
  }

  async findKey(digest: string): Promise<Key | undefined> {
    const known = this.knownKey(digest)
    if (known) return known
    const [row] = await this.#database.read(
      (sql) => sql<KeyRow[]>`${sql.unsafe(selectKeys)} WHERE keys.digest = ${digest}`,
    )
    const key = keyWithDigest(row, digest)
    return key && this.#cache.set(digest, key)
  }

  async findKeyById(id: string): Promise<Key | undefined> {
    const known = this.#cache.get(id)
    if (known) return known
    const key = await this.readKey(id)
    // The cache may still have the key under its digest.
    if (refusalOf(key)) this.#cache.forget()
    return key && this.#cache.set(id, key)
  }

  async readKey(id: string): Promise<Key | undefined> {
    return this.#database.read((sql) => keyWithId(sql, id))
  }

  prune(before: number, max: number): Promise<number> {
    return this.#database.transaction(async (sql) => {
      const removed = await sql`
        DELETE FROM keys WHERE id IN (
          SELECT id FROM keys WHERE ${sql.unsafe(endOfRow)} < ${before}
          ORDER BY ${sql.unsafe(endOfRow)} LIMIT ${max} FOR UPDATE SKIP LOCKED
        )`
      return removed.count
    })
  }

  async takeNotices(): Promise<readonly string[]> {
    // `DELETE … RETURNING` gives each notice to only one replica.
    const taken = await this.#database.transaction(
      (sql) => sql<{ id: string; text: string }[]>`DELETE FROM notices RETURNING id, text`,
    )
    return taken.toSorted((a, b) => (a.id < b.id ? -1 : 1)).map(({ text }) => text)
  }

  async noteUses(uses: ReadonlyMap<string, number>): Promise<void> {
    const noted = JSON.stringify([...uses].map(([id, moment]) => ({ id, moment })))
    await this.#database.transaction(async (sql) => {
      await withoutStandby(sql)
      // Of the uses that replicas write, the latest is kept. ORDER BY makes deadlocks of replicas less likely. The planner may
      // still join in another order. Then a deadlock is possible, and the transaction is retried.
      await sql`
        UPDATE keys SET last_used = noted.moment
        FROM (SELECT id, moment FROM json_to_recordset(${noted}::text::json) AS x(id text, moment bigint) ORDER BY id) AS noted
        WHERE keys.id = noted.id AND (keys.last_used IS NULL OR keys.last_used < noted.moment)`
      return true
    })
  }

  async #createKey(sql: Transaction, request: KeyRequest, counting: Counting = { maker: null }): Promise<NewKey> {
    const account = await this.#accounts.named(sql, request.account)
    const candidates = newKeys(request, account, counting)
    for (;;) {
      const { key, secret } = candidates.next().value
      const inserted = await sql`
        INSERT INTO keys
          (id, account, name, prefix, digest, scopes, created, expires, limits, models, subject, maker, maker_limits)
        VALUES (${key.id}, ${account.id}, ${key.name}, ${key.prefix}, ${digestKey(secret)}, ${key.scopes.join(',')},
          ${key.created}, ${key.expires}, ${JSON.stringify(key.ownLimits)}, ${modelsToStore(key.models)}, ${key.subject},
          ${key.maker?.subject ?? null}, ${key.maker && JSON.stringify(key.maker.limits)})
        ON CONFLICT DO NOTHING RETURNING id`
      if (inserted.length === 1) return { key, secret }
    }
  }

  /** Finds a key, and locks the keys of its account against all other changes of keys until the transaction ends. */
  async #locked(sql: Transaction, name: KeyName): Promise<Key> {
    const { id, account } = await this.#found(sql, name)
    await this.#accounts.lockKeys(sql, account)
    return keyIn(account.id, await keyWithId(sql, id))
  }

  async #found(sql: Transaction, name: KeyName): Promise<Key> {
    if (typeof name !== 'string') return keyIn(name.account, await keyWithId(sql, name.id))
    const digest = digestKey(name)
    const text = name.replaceAll('\0', '')
    const exact = await sql<KeyRow[]>`
      ${sql.unsafe(selectKeys)} WHERE keys.digest = ${digest} OR keys.id = ${text} OR keys.prefix = ${text}`
    const range = exact.length > 0 ? undefined : prefixesBeginningWith(text)
    if (!range) return matchingKey(exact, text, digest)
    const rows = await sql<KeyRow[]>`
      ${sql.unsafe(selectKeys)} WHERE keys.prefix BETWEEN ${range.first} AND ${range.last}
      ORDER BY keys.prefix LIMIT ${maxMatches}`
    return matchingKey(rows, text, digest)
  }

  /** Runs a change in one transaction, and empties the cache afterwards. */
  async #change<T>(change: (sql: Transaction, record: Recorder) => Promise<T>, timeoutMs?: number): Promise<T> {
    try {
      return await withAuditRecords(this.#database, change, timeoutMs)
    } finally {
      this.#cache.forget()
    }
  }

  /** Runs a change, and refuses it if no working key of the scope `admin` is left after it. */
  async #withAdminLeft<T>(sql: Transaction, change: () => Promise<T>): Promise<T> {
    // The lock keeps two replicas from each removing one of the last two admin keys at the same time.
    await sql`SELECT value FROM counters WHERE name = 'accounts' FOR UPDATE`
    const hadAdmin = await this.#accounts.hasAdmin(sql)
    const result = await change()
    checkAdminIsLeft(hadAdmin, await this.#accounts.hasAdmin(sql))
    return result
  }
}

async function countWorking(sql: Queries, account: number, enough?: number): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    SELECT count(*) FROM (
      SELECT 1 FROM keys WHERE account = ${account} AND ${sql.unsafe(endOfRow)} > ${unixSeconds()} LIMIT ${enough ?? null}
    ) AS counted`
  return row?.count ?? 0
}

/** @throws ApiError 429 when the account has as many working keys or more */
async function checkLimit(sql: Queries, limit: number | undefined, account: number): Promise<void> {
  if (limit !== undefined) checkKeysLimit(limit, await countWorking(sql, account, limit))
}

async function keyWithId(sql: Queries, id: string): Promise<Key | undefined> {
  const [row] = await sql<KeyRow[]>`${sql.unsafe(selectKeys)} WHERE keys.id = ${id.replaceAll('\0', '')}`
  return row && toKey(row)
}

async function setRevoked(sql: Transaction, key: Key): Promise<Key> {
  await sql`UPDATE keys SET revoked = ${key.revoked} WHERE id = ${key.id}`
  return key
}

/** Writes the audit record of a changed account. @returns the changed account */
async function recordChange(
  action: AuditAction,
  before: Account,
  after: Account,
  record: Recorder,
  by: Actor,
): Promise<Account> {
  await record(by, accountChange(action, before, after))
  return after
}
