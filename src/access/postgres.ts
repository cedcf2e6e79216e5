import { type Recorder, withAuditRecords } from '../audit/postgres.ts'
import { type Actor, type AuditAction, commandLine, serviceActor } from '../audit/record.ts'
import type { AccountLimits } from '../limit-values.ts'
import type { PostgresDatabase, Transaction } from '../storage/postgres/database.ts'
import { ShortLivedCache } from '../storage/postgres/short-lived-cache.ts'
import { withoutStandby } from '../storage/postgres/standby.ts'
import { unixSeconds } from '../time.ts'
import type { AccessStore, Account, AccountLimitChanges, Key, KeyRequest, LimitChanges, NewKey } from './access.ts'
import { accountChange, accountEntry, keyChange, newKeyEntry } from './entries.ts'
import { digestKey } from './key.ts'
import { type ModelList, modelsToStore } from './model-lists.ts'
import { newKeys } from './new-key.ts'
import { beginningIn, checkAdminIsLeft, limited, meantKey, revoked, rotated, withModels } from './policy.ts'
import { PostgresAccounts } from './postgres-accounts.ts'
import { type KeyRow, keyWithDigest, selectKeys, toKey } from './rows.ts'

/** Milliseconds for which a command waits for those that write. */
const longestWait = 30_000
/** Milliseconds that deleting an account may take, whatever it has. */
const longestDeletion = 600_000

/** Accounts and keys in PostgreSQL. What another replica ends is known here half a second later. */
export class PostgresAccessStore implements AccessStore {
  readonly #database: PostgresDatabase
  readonly #accounts = new PostgresAccounts()
  /** Keys by digest and by id. One that is not there is not remembered. */
  readonly #known = new ShortLivedCache<Key>()

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
      // Of several first starts one makes it: whoever comes second waits here, and finds it.
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
      // Before the lock that every change of an admin's key waits for: others may write for a while.
      await this.#accounts.lock(sql, before)
      const after = await this.#keepingAnAdmin(sql, () => this.#accounts.suspend(sql, name))
      return audited('account.suspended', before, after, record, by)
    }, longestWait)
  }

  resumeAccount(name: string, by = commandLine): Promise<Account> {
    return this.#change(async (sql, record) => {
      const before = await this.#accounts.named(sql, name)
      return audited('account.resumed', before, await this.#accounts.resume(sql, name), record, by)
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
      return audited('account.limited', before, await this.#accounts.limit(sql, name, changes, models), record, by)
    })
  }

  /**
   * Deletes an account with its keys, in one transaction. What it has used stays in the ledger.
   * @param removeBelongings removes, in the same transaction, what other rooms keep of the account with this id, which nobody
   *   adds to meanwhile; gives false where the account is to stay as it is
   * @returns whether it is deleted
   * @throws AccessError for an unknown account, and one with the last working key of the scope `admin`
   */
  async deleteAccount(
    name: string,
    removeBelongings: (sql: Transaction, account: number) => Promise<boolean>,
    by = commandLine,
  ): Promise<boolean> {
    return this.#change(async (sql, record) => {
      const account = await this.#accounts.named(sql, name)
      await this.#accounts.lock(sql, account)
      // Before the lock that every change of an admin's key waits for: it may take its time.
      if (!(await removeBelongings(sql, account.id))) return false
      await this.#keepingAnAdmin(sql, () => this.#accounts.remove(sql, account))
      await record(by, accountEntry('account.deleted', account))
      return true
    }, longestDeletion)
  }

  createKey(request: KeyRequest, by = commandLine): Promise<NewKey> {
    return this.#change(async (sql, record) => {
      const made = await this.#createKey(sql, request)
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

  rotateKey(prefixOrKey: string, overlapSeconds: number, by = commandLine): Promise<NewKey> {
    return this.#changeKeepingAnAdmin(async (sql, record) => {
      const before = await this.#named(sql, prefixOrKey)
      const { old, successor } = rotated(before, overlapSeconds, unixSeconds())
      await setRevoked(sql, old)
      const made = await this.#createKey(sql, successor)
      await record(by, keyChange('key.rotated', before, old, made.key))
      return made
    })
  }

  revokeKey(prefixOrKey: string, by = commandLine): Promise<Key> {
    return this.#changeKeepingAnAdmin(async (sql, record) => {
      const before = await this.#named(sql, prefixOrKey)
      const key = await setRevoked(sql, revoked(before, unixSeconds()))
      await record(by, keyChange('key.revoked', before, key))
      return key
    })
  }

  limitKey(prefixOrKey: string, changes: LimitChanges, models?: ModelList | null, by = commandLine): Promise<Key> {
    return this.#change(async (sql, record) => {
      const before = await this.#named(sql, prefixOrKey)
      const key = withModels(limited(before, changes), models)
      await sql`
        UPDATE keys SET limits = ${JSON.stringify(key.limits)}, models = ${modelsToStore(key.models)}
        WHERE id = ${key.id}`
      await record(by, keyChange('key.limited', before, key))
      return key
    })
  }

  knownKey(digest: string): Key | undefined {
    return this.#known.get(digest)
  }

  async findKey(digest: string): Promise<Key | undefined> {
    const known = this.knownKey(digest)
    if (known) return known
    const [row] = await this.#database.read(
      (sql) => sql<KeyRow[]>`${sql.unsafe(selectKeys)} WHERE keys.digest = ${digest}`,
    )
    const key = keyWithDigest(row, digest)
    return key && this.#known.set(digest, key)
  }

  async findKeyById(id: string): Promise<Key | undefined> {
    const known = this.#known.get(id)
    if (known) return known
    const key = await this.readKey(id)
    return key && this.#known.set(id, key)
  }

  async readKey(id: string): Promise<Key | undefined> {
    const [row] = await this.#database.read(
      (sql) => sql<KeyRow[]>`${sql.unsafe(selectKeys)} WHERE keys.id = ${id.replaceAll('\0', '')}`,
    )
    return row && toKey(row)
  }

  async takeNotices(): Promise<readonly string[]> {
    // Of several replicas one tells each.
    const taken = await this.#database.transaction(
      (sql) => sql<{ id: string; text: string }[]>`DELETE FROM notices RETURNING id, text`,
    )
    return taken.toSorted((a, b) => (a.id < b.id ? -1 : 1)).map(({ text }) => text)
  }

  async noteUses(uses: ReadonlyMap<string, number>): Promise<void> {
    const noted = JSON.stringify([...uses].map(([id, moment]) => ({ id, moment })))
    await this.#database.transaction(async (sql) => {
      await withoutStandby(sql)
      // The latest of all replicas; in one order, so that two never wait for each other.
      await sql`
        UPDATE keys SET last_used = noted.moment
        FROM (SELECT id, moment FROM json_to_recordset(${noted}::text::json) AS x(id text, moment bigint) ORDER BY id) AS noted
        WHERE keys.id = noted.id AND (keys.last_used IS NULL OR keys.last_used < noted.moment)`
      return true
    })
  }

  async #createKey(sql: Transaction, request: KeyRequest): Promise<NewKey> {
    const account = await this.#accounts.named(sql, request.account)
    const candidates = newKeys(request, account)
    for (;;) {
      const { key, secret } = candidates.next().value
      const inserted = await sql`
        INSERT INTO keys (id, account, name, prefix, digest, scopes, created, expires, limits, models)
        VALUES (${key.id}, ${account.id}, ${key.name}, ${key.prefix}, ${digestKey(secret)}, ${key.scopes.join(',')},
          ${key.created}, ${key.expires}, ${JSON.stringify(key.limits)}, ${modelsToStore(key.models)})
        ON CONFLICT DO NOTHING RETURNING id`
      if (inserted.length === 1) return { key, secret }
    }
  }

  async #named(sql: Transaction, given: string): Promise<Key> {
    const digest = digestKey(given)
    const text = given.replaceAll('\0', '')
    const rows = await sql<KeyRow[]>`
      ${sql.unsafe(selectKeys)} WHERE keys.digest = ${digest} OR keys.id = ${text} OR keys.prefix = ${text}
        OR starts_with(keys.prefix, ${beginningIn(text)}::text)
      ORDER BY keys.prefix`
    return meantKey(rows, text, digest)
  }

  /** Does a change in one transaction; what was remembered may not be so afterwards. */
  async #change<T>(change: (sql: Transaction, record: Recorder) => Promise<T>, timeoutMs?: number): Promise<T> {
    try {
      return await withAuditRecords(this.#database, change, timeoutMs)
    } finally {
      this.#known.forget()
    }
  }

  #changeKeepingAnAdmin<T>(change: (sql: Transaction, record: Recorder) => Promise<T>): Promise<T> {
    return this.#change((sql, record) => this.#keepingAnAdmin(sql, () => change(sql, record)))
  }

  /** Does a change, unless it would leave nobody with a working key of the scope `admin`. */
  async #keepingAnAdmin<T>(sql: Transaction, change: () => Promise<T>): Promise<T> {
    // Two replicas that each take another of the last two away must not both find one left.
    await sql`SELECT value FROM counters WHERE name = 'accounts' FOR UPDATE`
    const hadAdmin = await this.#accounts.hasAdmin(sql)
    const result = await change()
    checkAdminIsLeft(hadAdmin, await this.#accounts.hasAdmin(sql))
    return result
  }
}

async function setRevoked(sql: Transaction, key: Key): Promise<Key> {
  await sql`UPDATE keys SET revoked = ${key.revoked} WHERE id = ${key.id}`
  return key
}

/** Puts a change to an account on record, and gives what it came to. */
async function audited(
  action: AuditAction,
  before: Account,
  after: Account,
  record: Recorder,
  by: Actor,
): Promise<Account> {
  await record(by, accountChange(action, before, after))
  return after
}
