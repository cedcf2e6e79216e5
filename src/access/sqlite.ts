import type { Database, Statement } from 'better-sqlite3'
import { type Actor, type AuditAction, commandLine, serviceActor } from '../audit/record.ts'
import { type Recorder, withAuditRecords } from '../audit/sqlite.ts'
import type { AccountLimits } from '../limit-values.ts'
import type { OutsideChanges } from '../storage/caches.ts'
import { VersionedCache } from '../storage/caches.ts'
import { takeBriefly } from '../storage/prune.ts'
import { inTransaction } from '../storage/write-lock.ts'
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
import { endOfRow, type KeyRow, keyWithDigest, selectKeys, selectKeysWithoutEndedModels, toKey } from './rows.ts'
import { SqliteAccounts } from './sqlite-accounts.ts'

/** Accounts and keys in SQLite. */
export class SqliteAccessStore implements AccessStore {
  readonly #database: Database
  readonly #accounts: SqliteAccounts
  readonly #keyByDigest: Statement<[string], KeyRow>
  readonly #namedKeys: Statement<{ digest: string; given: string }, KeyRow>
  readonly #keysBeginningWith: Statement<{ first: string; last: string; limit: number }, KeyRow>
  readonly #keyById: Statement<[string], KeyRow>
  readonly #keysAfter: Statement<{ account: number; created: number; id: string; limit: number; now: number }, KeyRow>
  readonly #noteUse: Statement<[number, string]>
  readonly #countWorking: Statement<{ account: number; now: number; enough: number }, number>
  readonly #endedKey: Statement<[number]>
  readonly #removeEnded: Statement<[number, number]>
  /** Keys by digest and by id. Unknown keys are not cached, because an attacker can invent any number of keys. */
  readonly #cache: VersionedCache<Key>

  constructor(database: Database, changes: OutsideChanges) {
    this.#database = database
    this.#accounts = new SqliteAccounts(database)
    this.#cache = new VersionedCache(changes)
    this.#keyByDigest = database.prepare(`${selectKeys} WHERE keys.digest = ?`)
    this.#namedKeys = database.prepare(
      `${selectKeys} WHERE keys.digest = $digest OR keys.id = $given OR keys.prefix = $given`,
    )
    this.#keysBeginningWith = database.prepare(
      `${selectKeys} WHERE keys.prefix BETWEEN $first AND $last ORDER BY keys.prefix LIMIT $limit`,
    )
    this.#keyById = database.prepare(`${selectKeys} WHERE keys.id = ?`)
    this.#keysAfter = database.prepare(`
      ${selectKeysWithoutEndedModels('$now')} WHERE keys.account = $account AND (keys.created, keys.id) > ($created, $id)
      ORDER BY keys.created, keys.id LIMIT $limit`)
    this.#noteUse = database.prepare('UPDATE keys SET last_used = ? WHERE id = ?')
    // A negative limit is no limit.
    this.#countWorking = database
      .prepare<{ account: number; now: number; enough: number }, number>(
        `SELECT count(*) FROM (SELECT 1 FROM keys WHERE account = $account AND ${endOfRow} > $now LIMIT $enough)`,
      )
      .pluck()
    this.#endedKey = database.prepare(`SELECT 1 FROM keys WHERE ${endOfRow} < ? LIMIT 1`)
    this.#removeEnded = database.prepare(
      `DELETE FROM keys WHERE id IN (SELECT id FROM keys WHERE ${endOfRow} < ? ORDER BY ${endOfRow} LIMIT ?)`,
    )
  }

  async createAccount(
    name: string,
    limits?: AccountLimits,
    models?: ModelList | null,
    by = commandLine,
  ): Promise<Account> {
    return this.#change((record) => {
      const account = this.#accounts.create(name, limits, models)
      record(by, accountEntry('account.created', account))
      return account
    })
  }

  async createFirstAccount(request: KeyRequest, by = serviceActor()): Promise<NewKey | null> {
    // One transaction creates the account and its key. Of several processes that start at the same time, only one creates them.
    return this.#change((record) => {
      if (this.#accounts.list().length > 0) return null
      record(by, accountEntry('account.created', this.#accounts.create(request.account)))
      const made = this.#createKey(request)
      record(by, newKeyEntry(made.key))
      return made
    })
  }

  async listAccounts(): Promise<readonly Account[]> {
    return this.#accounts.list()
  }

  async suspendAccount(name: string, by = commandLine): Promise<Account> {
    return this.#changeWithAdminLeft((record) => {
      const before = this.#accounts.named(name)
      return recordChange('account.suspended', before, this.#accounts.suspend(name), record, by)
    })
  }

  async resumeAccount(name: string, by = commandLine): Promise<Account> {
    return this.#change((record) => {
      const before = this.#accounts.named(name)
      return recordChange('account.resumed', before, this.#accounts.resume(name), record, by)
    })
  }

  async limitAccount(
    name: string,
    changes: AccountLimitChanges,
    models?: ModelList | null,
    by = commandLine,
  ): Promise<Account> {
    return this.#change((record) => {
      const before = this.#accounts.named(name)
      return recordChange('account.limited', before, this.#accounts.limit(name, changes, models), record, by)
    })
  }

  /**
   * Deletes an account with its keys in one transaction. Its usage stays in the ledger.
   * @param removeAccountData removes the account's data of other features, in the same transaction; returns false to keep the
   *   account
   * @returns whether the account is deleted
   * @throws AccessError for an unknown account, and for the account of the last working key of the scope `admin`
   */
  async deleteAccount(
    name: string,
    removeAccountData: (account: number) => boolean,
    by = commandLine,
  ): Promise<boolean> {
    return this.#changeWithAdminLeft((record) => {
      const account = this.#accounts.named(name)
      if (!removeAccountData(account.id)) return false
      this.#accounts.remove(account)
      record(by, accountEntry('account.deleted', account))
      return true
    })
  }

  async createKey(request: KeyRequest, by = commandLine, limit?: number): Promise<NewKey> {
    return this.#change((record) => {
      this.#checkLimit(limit, this.#accounts.named(request.account).id)
      const maker = request.madeBy === undefined ? null : makerFrom(this.#keyWithId(request.madeBy))
      const made = this.#createKey(request, { maker })
      record(by, newKeyEntry(made.key))
      return made
    })
  }

  async listKeys(account?: string): Promise<readonly Key[]> {
    if (account === undefined) {
      return this.#database.prepare<[], KeyRow>(`${selectKeys} ORDER BY keys.created, keys.id`).all().map(toKey)
    }
    return this.#database
      .prepare<[number], KeyRow>(`${selectKeys} WHERE keys.account = ? ORDER BY keys.created, keys.id`)
      .all(this.#accounts.named(account).id)
      .map(toKey)
  }

  async keysAfter(account: number, after: KeyPosition | undefined, limit: number): Promise<readonly Key[]> {
    const { created = 0, id = '' } = after ?? {}
    const values = { account, created, id, limit, now: unixSeconds() }
    return this.#keysAfter.all(values).map(toKey)
  }

  async rotateKey(name: KeyName, overlapSeconds: number, by = commandLine, limit?: number): Promise<NewKey> {
    return this.#changeWithAdminLeft((record) => {
      const before = this.#found(name)
      const { old, successor } = rotated(before, overlapSeconds, unixSeconds())
      if (overlapSeconds > 0) this.#checkLimit(limit, before.account.id)
      this.#setRevoked(old)
      const made = this.#createKey(successor, before)
      record(by, keyChange('key.rotated', before, old, made.key))
      return made
    })
  }

  async revokeKey(name: KeyName, by = commandLine): Promise<Key> {
    return this.#changeWithAdminLeft((record) => {
      const before = this.#found(name)
      const key = this.#setRevoked(revoked(before, unixSeconds()))
      record(by, keyChange('key.revoked', before, key))
      return key
    })
  }

  async limitKey(name: KeyName, changes: LimitChanges, models?: ModelList | null, by = commandLine): Promise<Key> {
    return this.#change((record) => {
      const before = this.#found(name)
      const key = withModels(limitedKey(before, changes), models)
      this.#database
        .prepare('UPDATE keys SET limits = ?, models = ? WHERE id = ?')
        .run(JSON.stringify(key.ownLimits), modelsToStore(key.models), key.id)
      this.#database
        .prepare('UPDATE keys SET maker_limits = ? WHERE account = ? AND maker = ?')
        .run(JSON.stringify(key.limits), key.account.id, key.subject)
      record(by, keyChange('key.limited', before, key))
      return key
    })
  }

  async countKeys(account: number, enough?: number): Promise<number> {
    return this.#count(account, enough)
  }

  knownKey(digest: string): Key | undefined {
    return this.#cache.get(digest)
  }

  async findKey(digest: string): Promise<Key | undefined> {
    const known = this.knownKey(digest)
    if (known) return known
    const key = keyWithDigest(this.#keyByDigest.get(digest), digest)
    return key && this.#cache.set(digest, key)
  }

  async findKeyById(id: string): Promise<Key | undefined> {
    const known = this.#cache.get(id)
    if (known) return known
    const key = this.#keyWithId(id)
    return key && this.#cache.set(id, key)
  }

  async readKey(id: string): Promise<Key | undefined> {
    return this.#keyWithId(id)
  }

  async prune(before: number, max: number): Promise<number> {
    // If there is nothing to remove, the write lock is not taken.
    if (!this.#endedKey.get(before)) return 0
    const remove = (most: number) => this.#removeEnded.run(before, most).changes
    return inTransaction(this.#database, () => takeBriefly(max, remove))
  }

  async takeNotices(): Promise<readonly string[]> {
    return this.#change(() => {
      const notices = this.#database.prepare<[], string>('SELECT text FROM notices ORDER BY id').pluck().all()
      this.#database.exec('DELETE FROM notices')
      return notices
    })
  }

  async noteUses(uses: ReadonlyMap<string, number>): Promise<void> {
    // The cache is not emptied: no reader of the cache uses the last use of a key.
    const note = () => uses.forEach((moment, id) => void this.#noteUse.run(moment, id))
    inTransaction(this.#database, note)
  }

  #count(account: number, enough = -1): number {
    return this.#countWorking.get({ account, now: unixSeconds(), enough }) ?? 0
  }

  #checkLimit(limit: number | undefined, account: number): void {
    if (limit !== undefined) checkKeysLimit(limit, this.#count(account, limit))
  }

  #keyWithId(id: string): Key | undefined {
    const row = this.#keyById.get(id)
    return row && toKey(row)
  }

  #createKey(request: KeyRequest, counting: Counting = { maker: null }): NewKey {
    const account = this.#accounts.named(request.account)
    const insert = this.#database.prepare(`
      INSERT INTO keys
        (id, account, name, prefix, digest, scopes, created, expires, limits, models, subject, maker, maker_limits)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`)
    const candidates = newKeys(request, account, counting)
    for (;;) {
      const { key, secret } = candidates.next().value
      const { changes } = insert.run(
        key.id,
        account.id,
        key.name,
        key.prefix,
        digestKey(secret),
        key.scopes.join(','),
        key.created,
        key.expires,
        JSON.stringify(key.ownLimits),
        modelsToStore(key.models),
        key.subject,
        key.maker?.subject ?? null,
        key.maker && JSON.stringify(key.maker.limits),
      )
      if (changes === 1) return { key, secret }
    }
  }

  #found(name: KeyName): Key {
    if (typeof name !== 'string') return keyIn(name.account, this.#keyWithId(name.id))
    const digest = digestKey(name)
    const exact = this.#namedKeys.all({ digest, given: name })
    if (exact.length > 0) return matchingKey(exact, name, digest)
    const range = prefixesBeginningWith(name)
    return matchingKey(range ? this.#keysBeginningWith.all({ ...range, limit: maxMatches }) : [], name, digest)
  }

  #setRevoked(key: Key): Key {
    this.#database.prepare('UPDATE keys SET revoked = ? WHERE id = ?').run(key.revoked, key.id)
    return key
  }

  /** Runs a change in one transaction, and empties the cache afterwards. */
  #change<T>(change: (record: Recorder) => T): T {
    try {
      return withAuditRecords(this.#database, change)
    } finally {
      this.#cache.forget()
    }
  }

  /** Runs a change, and refuses it if no working key of the scope `admin` is left after it. */
  #changeWithAdminLeft<T>(change: (record: Recorder) => T): T {
    return this.#change((record) => {
      const hadAdmin = this.#accounts.hasAdmin()
      const result = change(record)
      checkAdminIsLeft(hadAdmin, this.#accounts.hasAdmin())
      return result
    })
  }
}

/** Writes the audit record of a changed account. @returns the changed account */
function recordChange(action: AuditAction, before: Account, after: Account, record: Recorder, by: Actor): Account {
  record(by, accountChange(action, before, after))
  return after
}
