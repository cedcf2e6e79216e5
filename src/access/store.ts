import { type Actor, type AuditEntry, commandLine, type Recorder, serviceActor } from '../audit/record.ts'
import type { AccountLimits } from '../limit-values.ts'
import { rowOf, rowsOf, type Script, type Statement, sql } from '../storage/scripts.ts'
import { unixSeconds } from '../time.ts'
import {
  AccessError,
  type AccessStore,
  type Account,
  type AccountLimitChanges,
  type Key,
  type KeyName,
  type KeyPosition,
  type KeyRequest,
  type LimitChanges,
  type NewKey,
  unknownAccount,
} from './access.ts'
import { digestKey } from './key.ts'
import { type ModelList, modelsToStore } from './model-lists.ts'
import {
  accountChange,
  accountEntry,
  accountNamed,
  accountTaken,
  type Counting,
  checkAdminIsLeft,
  checkKeysLimit,
  holdsAdmin,
  keyChange,
  keyIn,
  limited,
  limitedKey,
  makerFrom,
  matchingKey,
  maxMatches,
  newKey,
  newKeyEntry,
  prefixesBeginningWith,
  resumed,
  revoked,
  rotated,
  suspended,
  withModels,
} from './policy.ts'
import { refusalOf } from './refusals.ts'
import {
  type AccountRow,
  type AdminRow,
  endOfRow,
  type KeyRow,
  keyWithDigest,
  selectAccounts,
  selectAdmins,
  selectKeys,
  selectKeysWithoutEndedModels,
  toAccount,
  toKey,
} from './rows.ts'

/** The time limit of a suspension, which may wait for other writers of PostgreSQL. */
const suspensionTimeoutMs = 30_000
/** The time limit of the deletion of an account, which may be large. */
const deletionTimeoutMs = 600_000

const oldestFirst = sql`ORDER BY keys.created, keys.id`

/** A cache of keys, by digest and by id. */
export interface KeyCache {
  get(question: string): Key | undefined
  set(question: string, key: Key): Key
  forget(): void
}

/** Accounts and keys in a database. The scripts are here; the subclass of an engine runs them, and has what only this engine needs. */
export abstract class DatabaseAccessStore implements AccessStore {
  /** The ends of statements that lock an account until the transaction ends: against all writes, or against changes of its keys. */
  protected abstract readonly forUpdate: Statement
  protected abstract readonly forNoKeyUpdate: Statement
  /** Gives an id that no account has had: with the id of a deleted account, a new account would get its ledger. */
  protected abstract readonly newAccountId: Statement
  /** Unknown keys are not cached, because an attacker can invent any number of keys. */
  readonly #cache: KeyCache

  constructor(cache: KeyCache) {
    this.#cache = cache
  }

  /** Runs a script that only reads. If the connection is lost, the script is made and run again. */
  protected abstract read<T>(script: () => Script<T>): Promise<T>
  /**
   * Runs a script in one transaction, which is on disk when the promise resolves. The script may be made and run several times.
   * @param timeoutMs how long PostgreSQL may take; by default the time limit of a request
   */
  protected abstract write<T>(script: (record: Recorder) => Script<T>, timeoutMs?: number): Promise<T>
  /** Lets no other transaction create the first account, or remove an admin key, until this transaction ends. */
  protected abstract lockAccounts(): Script<unknown>

  abstract prune(before: number, max: number): Promise<number>
  abstract noteUses(uses: ReadonlyMap<string, number>): Promise<void>

  createAccount(name: string, limits?: AccountLimits, models?: ModelList | null, by = commandLine): Promise<Account> {
    return this.#change(by, function* (record) {
      return yield* this.#addAccount(record, name, limits, models)
    })
  }

  createFirstAccount(request: KeyRequest, by = serviceActor()): Promise<NewKey | null> {
    return this.#change(by, function* (record) {
      // When several processes start for the first time, one creates the account. The others wait for this lock, and then find it.
      yield* this.lockAccounts()
      if (yield* rowOf(sql`SELECT id FROM accounts LIMIT 1`)) return null
      const account = yield* this.#addAccount(record, request.account)
      const made = yield* insertKey(request, account)
      yield* record(newKeyEntry(made.key))
      return made
    })
  }

  async listAccounts(): Promise<readonly Account[]> {
    return (await this.read(() => rowsOf<AccountRow>(sql`${selectAccounts} ORDER BY id`))).map(toAccount)
  }

  suspendAccount(name: string, by = commandLine): Promise<Account> {
    return this.#change(
      by,
      function* (record) {
        // The wait for the account's lock may be long. So it comes before `#withAdminLeft`, which takes a lock that blocks every
        // rotation and revocation of keys.
        const before = yield* accountWithName(name, this.forUpdate)
        const after = suspended(before, name, unixSeconds())
        yield* this.#withAdminLeft(updateAccount(after))
        yield* record(accountChange('account.suspended', before, after))
        return after
      },
      suspensionTimeoutMs,
    )
  }

  resumeAccount(name: string, by = commandLine): Promise<Account> {
    return this.#change(by, function* (record) {
      const before = yield* accountWithName(name, this.forNoKeyUpdate)
      const after = resumed(before, name)
      yield* updateAccount(after)
      yield* record(accountChange('account.resumed', before, after))
      return after
    })
  }

  limitAccount(
    name: string,
    changes: AccountLimitChanges,
    models?: ModelList | null,
    by = commandLine,
  ): Promise<Account> {
    return this.#change(by, function* (record) {
      const before = yield* accountWithName(name, this.forNoKeyUpdate)
      const after = withModels(limited(before, changes), models)
      yield* updateAccount(after)
      yield* record(accountChange('account.limited', before, after))
      return after
    })
  }

  setTimeZone(name: string, timeZone: string | null, by = commandLine): Promise<Account> {
    return this.#change(by, function* (record) {
      const before = yield* accountWithName(name, this.forNoKeyUpdate)
      const after = { ...before, timeZone }
      yield* updateAccount(after)
      yield* record(accountChange('account.changed', before, after))
      return after
    })
  }

  /**
   * Deletes an account with its keys in one transaction. Its usage stays in the ledger.
   * @param removeAccountData removes the account's data of other features, in the same transaction, while the account is locked;
   *   returns false to keep the account
   * @returns whether the account is deleted
   * @throws AccessError for an unknown account, and for the account of the last working key of the scope `admin`
   */
  deleteAccount(
    name: string,
    removeAccountData: (account: number) => Script<boolean>,
    by = commandLine,
  ): Promise<boolean> {
    return this.#change(
      by,
      function* (record) {
        const account = yield* accountWithName(name, this.forUpdate)
        // The removal may take long. So it runs before `#withAdminLeft`, which blocks every rotation and revocation of keys.
        if (!(yield* removeAccountData(account.id))) return false
        yield* this.#withAdminLeft(deleteAccountRows(account))
        yield* record(accountEntry('account.deleted', account))
        return true
      },
      deletionTimeoutMs,
    )
  }

  createKey(request: KeyRequest, by = commandLine, limit?: number): Promise<NewKey> {
    return this.#change(by, function* (record) {
      const account = yield* accountWithName(request.account, this.forNoKeyUpdate)
      yield* checkLimit(limit, account.id)
      const maker = request.madeBy === undefined ? null : makerFrom(yield* keyWithId(request.madeBy))
      const made = yield* insertKey(request, account, { maker })
      yield* record(newKeyEntry(made.key))
      return made
    })
  }

  async listKeys(account?: string): Promise<readonly Key[]> {
    return (await this.read(() => keysOf(account))).map(toKey)
  }

  async keysAfter(account: number, after: KeyPosition | undefined, limit: number): Promise<readonly Key[]> {
    const { created = 0, id = '' } = after ?? {}
    const keys = sql`
      ${selectKeysWithoutEndedModels(unixSeconds())} WHERE keys.account = ${account}
      AND (keys.created, keys.id) > (${created}, ${id}) ${oldestFirst} LIMIT ${limit}`
    return (await this.read(() => rowsOf<KeyRow>(keys))).map(toKey)
  }

  rotateKey(name: KeyName, overlapSeconds: number, by = commandLine, limit?: number): Promise<NewKey> {
    return this.#change(by, function* (record) {
      const before = yield* this.#lockedKey(name)
      const { old, successor } = rotated(before, overlapSeconds, unixSeconds())
      if (overlapSeconds > 0) yield* checkLimit(limit, before.account.id)
      const made = yield* this.#withAdminLeft(replaceKey(before, old, successor))
      yield* record(keyChange('key.rotated', before, old, made.key))
      return made
    })
  }

  revokeKey(name: KeyName, by = commandLine): Promise<Key> {
    return this.#change(by, function* (record) {
      const before = yield* this.#lockedKey(name)
      const after = revoked(before, unixSeconds())
      yield* this.#withAdminLeft(endKey(after))
      yield* record(keyChange('key.revoked', before, after))
      return after
    })
  }

  limitKey(name: KeyName, changes: LimitChanges, models?: ModelList | null, by = commandLine): Promise<Key> {
    return this.#change(by, function* (record) {
      const before = yield* this.#lockedKey(name)
      const after = withModels(limitedKey(before, changes), models)
      yield* rowsOf(sql`
        UPDATE keys SET limits = ${JSON.stringify(after.ownLimits)}, models = ${modelsToStore(after.models)}
        WHERE id = ${after.id}`)
      yield* rowsOf(sql`
        UPDATE keys SET maker_limits = ${JSON.stringify(after.limits)}
        WHERE account = ${after.account.id} AND maker = ${after.subject}`)
      yield* record(keyChange('key.limited', before, after))
      return after
    })
  }

  countKeys(account: number, enough?: number): Promise<number> {
    return this.read(() => countWorking(account, enough))
  }

  knownKey(digest: string): Key | undefined {
    return this.#cache.get(digest)
  }

  async findKey(digest: string): Promise<Key | undefined> {
    return this.knownKey(digest) ?? (await this.read(() => this.#cachedByDigest(digest)))
  }

  async findKeyById(id: string): Promise<Key | undefined> {
    return this.#cache.get(id) ?? (await this.read(() => this.#cachedById(id)))
  }

  readKey(id: string): Promise<Key | undefined> {
    return this.read(() => keyWithId(id))
  }

  async takeNotices(): Promise<readonly string[]> {
    // `RETURNING` gives each notice to only one replica.
    const remove = sql`DELETE FROM notices RETURNING id, text`
    const taken = await this.write(() => rowsOf<{ id: string; text: string }>(remove))
    return taken.toSorted((a, b) => (a.id < b.id ? -1 : 1)).map(({ text }) => text)
  }

  /** Runs a change by this actor, and empties the cache afterwards. @param change a script with this store as its `this` */
  async #change<T>(
    by: Actor,
    change: (this: DatabaseAccessStore, record: (entry: AuditEntry) => Script<void>) => Script<T>,
    timeoutMs?: number,
  ): Promise<T> {
    try {
      return await this.write((record) => change.call(this, (entry) => record(by, entry)), timeoutMs)
    } finally {
      this.#cache.forget()
    }
  }

  // The key is cached within the script: over SQLite, no change can come between reading and caching.
  *#cachedByDigest(digest: string): Script<Key | undefined> {
    const key = keyWithDigest(yield* rowOf<KeyRow>(sql`${selectKeys} WHERE keys.digest = ${digest}`), digest)
    return key && this.#cache.set(digest, key)
  }

  *#cachedById(id: string): Script<Key | undefined> {
    const key = yield* keyWithId(id)
    // The cache may still have the key under its digest.
    if (refusalOf(key)) this.#cache.forget()
    return key && this.#cache.set(id, key)
  }

  *#addAccount(
    record: (entry: AuditEntry) => Script<void>,
    name: string,
    limits: AccountLimits = {},
    models: ModelList | null = null,
  ): Script<Account> {
    const [trimmed, created] = [accountNamed(name), unixSeconds()]
    const next = yield* rowOf<{ id: number }>(this.newAccountId)
    if (!next) throw new Error('the table of counters is empty')
    const { id } = next
    const inserted = yield* rowOf(sql`
      INSERT INTO accounts (id, name, created, limits, models)
      VALUES (${id}, ${trimmed}, ${created}, ${JSON.stringify(limits)}, ${modelsToStore(models)})
      ON CONFLICT (name) DO NOTHING RETURNING id`)
    if (!inserted) throw accountTaken(trimmed)
    const account = { id, name: trimmed, created, suspended: null, limits, models, timeZone: null }
    yield* record(accountEntry('account.created', account))
    return account
  }

  /** Finds a key, and locks the keys of its account against all other changes of keys until the transaction ends. */
  *#lockedKey(name: KeyName): Script<Key> {
    const { id, account } = yield* foundKey(name)
    yield* rowsOf(sql`SELECT id FROM accounts WHERE id = ${account.id} ${this.forNoKeyUpdate}`)
    return keyIn(account.id, yield* keyWithId(id))
  }

  /** Runs a change, and refuses it if no working key of the scope `admin` is left after it. */
  *#withAdminLeft<T>(change: Script<T>): Script<T> {
    // The lock keeps two replicas from each removing one of the last two admin keys at the same time.
    yield* this.lockAccounts()
    const hadAdmin = yield* hasAdmin()
    const result = yield* change
    checkAdminIsLeft(hadAdmin, yield* hasAdmin())
    return result
  }
}

/** @param lock the end of the statement, which may lock the account @throws AccessError when no account has this name */
function* accountWithName(name: string, lock: Statement): Script<Account> {
  const row = yield* rowOf<AccountRow>(sql`${selectAccounts} WHERE name = ${searchable(name.trim())} ${lock}`)
  if (!row) throw unknownAccount(name)
  return toAccount(row)
}

function updateAccount({ id, suspended, limits, models, timeZone }: Account): Script<unknown> {
  return rowsOf(sql`
    UPDATE accounts SET suspended = ${suspended}, limits = ${JSON.stringify(limits)}, models = ${modelsToStore(models)},
      time_zone = ${timeZone}
    WHERE id = ${id}`)
}

/** Removes an account and its keys. The caller has removed all other data of the account, except its usage. */
function* deleteAccountRows({ id }: Account): Script<void> {
  yield* rowsOf(sql`DELETE FROM keys WHERE account = ${id}`)
  yield* rowsOf(sql`DELETE FROM accounts WHERE id = ${id}`)
}

/** Whether there is a working key of the scope `admin`. */
function* hasAdmin(): Script<boolean> {
  return holdsAdmin(yield* rowsOf<AdminRow>(selectAdmins), unixSeconds())
}

function* keysOf(account: string | undefined): Script<readonly KeyRow[]> {
  if (account === undefined) return yield* rowsOf<KeyRow>(sql`${selectKeys} ${oldestFirst}`)
  const { id } = yield* accountWithName(account, sql``)
  return yield* rowsOf<KeyRow>(sql`${selectKeys} WHERE keys.account = ${id} ${oldestFirst}`)
}

function* keyWithId(id: string): Script<Key | undefined> {
  const row = yield* rowOf<KeyRow>(sql`${selectKeys} WHERE keys.id = ${searchable(id)}`)
  return row && toKey(row)
}

function* foundKey(name: KeyName): Script<Key> {
  if (typeof name !== 'string') return keyIn(name.account, yield* keyWithId(name.id))
  const [digest, given] = [digestKey(name), searchable(name)]
  const exact = yield* rowsOf<KeyRow>(
    sql`${selectKeys} WHERE keys.digest = ${digest} OR keys.id = ${given} OR keys.prefix = ${given}`,
  )
  const range = exact.length > 0 ? undefined : prefixesBeginningWith(given)
  if (!range) return matchingKey(exact, name, digest)
  const rows = yield* rowsOf<KeyRow>(sql`
    ${selectKeys} WHERE keys.prefix BETWEEN ${range.first} AND ${range.last} ORDER BY keys.prefix LIMIT ${maxMatches}`)
  return matchingKey(rows, name, digest)
}

function* countWorking(account: number, enough: number = Number.MAX_SAFE_INTEGER): Script<number> {
  const row = yield* rowOf<{ count: number }>(sql`
    SELECT count(*) AS count FROM (
      SELECT 1 FROM keys WHERE account = ${account} AND ${endOfRow} > ${unixSeconds()} LIMIT ${enough}
    ) AS counted`)
  return row?.count ?? 0
}

/** @throws ApiError 429 when the account has as many working keys or more */
function* checkLimit(limit: number | undefined, account: number): Script<void> {
  if (limit !== undefined) checkKeysLimit(limit, yield* countWorking(account, limit))
}

/** How many random keys are tried to find an unused prefix. */
const maxAttempts = 100

/**
 * Adds a key with an unused prefix, because prefixes identify keys on the command line.
 * @throws AccessError for an invalid request, and when the prefix of a preset key, or of every random key, is used
 */
function* insertKey(request: KeyRequest, account: Account, counting: Counting = { maker: null }): Script<NewKey> {
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    const made = newKey(request, account, counting)
    const { key, secret } = made
    const inserted = yield* rowOf(sql`
      INSERT INTO keys
        (id, account, name, prefix, digest, scopes, created, expires, limits, models, subject, maker, maker_limits)
      VALUES (${key.id}, ${account.id}, ${key.name}, ${key.prefix}, ${digestKey(secret)}, ${key.scopes.join(',')},
        ${key.created}, ${key.expires}, ${JSON.stringify(key.ownLimits)}, ${modelsToStore(key.models)}, ${key.subject},
        ${key.maker?.subject ?? null}, ${key.maker && JSON.stringify(key.maker.limits)})
      ON CONFLICT DO NOTHING RETURNING id`)
    if (inserted) return made
    if (request.secret !== undefined) throw new AccessError('A key with this prefix exists. Preset another key.')
  }
  throw new AccessError('No unused prefix was found for the key. Try again.')
}

function endKey({ id, revoked }: Key): Script<unknown> {
  return rowsOf(sql`UPDATE keys SET revoked = ${revoked} WHERE id = ${id}`)
}

function* replaceKey(before: Key, old: Key, successor: KeyRequest): Script<NewKey> {
  yield* endKey(old)
  return yield* insertKey(successor, before.account, before)
}

/** A text to search for. PostgreSQL refuses U+0000, which no name and no id has. */
function searchable(text: string): string {
  return text.replaceAll('\0', '\uFFFD')
}
