import { randomUUID, timingSafeEqual } from 'node:crypto'
import type { Database, Statement } from 'better-sqlite3'
import { storedLimits } from '../limits/limits.ts'
import type { OutsideChanges } from '../storage/outside-changes.ts'
import { Remembered } from '../storage/remembered.ts'
import { AccessError, type AccessStore, type Account, isScope, type Key, type KeyRequest } from './access.ts'
import { digestKey, keyPrefix, makeKey } from './key.ts'

interface AccountRow {
  readonly id: number
  readonly name: string
  readonly created: number
  readonly suspended: number | null
  readonly limits: string
}

interface KeyRow {
  readonly id: string
  readonly account: number
  readonly account_name: string
  readonly account_created: number
  readonly account_suspended: number | null
  readonly account_limits: string
  readonly prefix: string
  readonly name: string | null
  readonly digest: string
  readonly scopes: string
  readonly created: number
  readonly expires: number | null
  readonly revoked: number | null
  readonly last_used: number | null
  readonly limits: string
}

const selectKeys = `
  SELECT keys.*, accounts.name AS account_name, accounts.created AS account_created,
    accounts.suspended AS account_suspended, accounts.limits AS account_limits
  FROM keys JOIN accounts ON accounts.id = keys.account`

/** Accounts and keys in SQLite. */
export class SqliteAccessStore implements AccessStore {
  readonly #database: Database
  readonly #keyByDigest: Statement<[string], KeyRow>
  readonly #keyByPrefix: Statement<[string], KeyRow>
  readonly #accountByName: Statement<[string], AccountRow>
  /** Keys by digest. One that is not there is not remembered: anybody may make up as many as they like. */
  readonly #known: Remembered<Key>

  constructor(database: Database, changes: OutsideChanges) {
    this.#database = database
    this.#known = new Remembered(changes)
    this.#keyByDigest = database.prepare(`${selectKeys} WHERE keys.digest = ?`)
    this.#keyByPrefix = database.prepare(`${selectKeys} WHERE keys.prefix = ?`)
    this.#accountByName = database.prepare('SELECT * FROM accounts WHERE name = ?')
  }

  async createAccount(name: string): Promise<Account> {
    return this.#createAccount(name)
  }

  async createFirstAccount(request: KeyRequest): Promise<{ key: Key; secret: string } | null> {
    // At once, so that of several first starts one makes it, and none leaves an account without a key.
    return this.#database
      .transaction(() => {
        if (this.#accounts().length > 0) return null
        this.#createAccount(request.account)
        return this.#createKey(request)
      })
      .immediate()
  }

  async listAccounts(): Promise<readonly Account[]> {
    return this.#accounts()
  }

  async createKey(request: KeyRequest): Promise<{ key: Key; secret: string }> {
    return this.#createKey(request)
  }

  #createAccount(name: string): Account {
    const trimmed = name.trim()
    if (!/^[\p{L}\p{N}][\p{L}\p{N} ._@-]{0,99}$/u.test(trimmed)) {
      throw new AccessError(
        `${JSON.stringify(name)} cannot be an account's name; use up to 100 letters, digits, spaces and . _ @ -`,
      )
    }
    const created = now()
    const result = this.#database
      .prepare('INSERT INTO accounts (name, created) VALUES (?, ?) ON CONFLICT (name) DO NOTHING')
      .run(trimmed, created)
    if (result.changes === 0) throw new AccessError(`There is an account ${JSON.stringify(trimmed)} already.`)
    return { id: Number(result.lastInsertRowid), name: trimmed, created, suspended: null, limits: {} }
  }

  #accounts(): readonly Account[] {
    return this.#database.prepare<[], AccountRow>('SELECT * FROM accounts ORDER BY id').all().map(toAccount)
  }

  #createKey(request: KeyRequest): { key: Key; secret: string } {
    const account = this.#accountByName.get(request.account)
    if (!account) throw unknownAccount(request.account)
    if (/\p{Cc}/u.test(request.name ?? '')) {
      throw new AccessError(`${JSON.stringify(request.name)} cannot be a key's name: leave out its control characters.`)
    }
    const insert = this.#database.prepare(`
      INSERT INTO keys (id, account, name, prefix, digest, scopes, created, expires, limits)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`)
    const created = now()
    // A random key whose prefix is taken is thrown away for another: prefixes name keys on the command line.
    for (let attempt = 0; attempt < 100; attempt++) {
      const secret = request.secret ?? makeKey()
      const key: Key = {
        id: `key_${randomUUID().replaceAll('-', '')}`,
        account: toAccount(account),
        prefix: keyPrefix(secret),
        name: request.name ?? null,
        scopes: request.scopes,
        created,
        expires: request.expires ?? null,
        revoked: null,
        lastUsed: null,
        limits: request.limits ?? {},
      }
      const result = insert.run(
        key.id,
        account.id,
        key.name,
        key.prefix,
        digestKey(secret),
        key.scopes.join(','),
        created,
        key.expires,
        JSON.stringify(key.limits),
      )
      if (result.changes === 1) return { key, secret }
      if (request.secret !== undefined) throw new AccessError('That key, or one that begins like it, exists already.')
    }
    throw new AccessError('No unused key prefix was found; revoke and delete old keys.')
  }

  async listKeys(account?: string): Promise<readonly Key[]> {
    if (account === undefined) {
      return this.#database.prepare<[], KeyRow>(`${selectKeys} ORDER BY keys.created, keys.rowid`).all().map(toKey)
    }
    const owner = this.#accountByName.get(account)
    if (!owner) throw unknownAccount(account)
    return this.#database
      .prepare<[number], KeyRow>(`${selectKeys} WHERE keys.account = ? ORDER BY keys.created, keys.rowid`)
      .all(owner.id)
      .map(toKey)
  }

  async revokeKey(prefixOrKey: string): Promise<Key> {
    const row = this.#keyByDigest.get(digestKey(prefixOrKey)) ?? this.#keyByPrefix.get(prefixOrKey)
    // The argument may be a whole secret, so it is not repeated.
    if (!row) throw new AccessError('There is no such key. See: conservatory keys list')
    if (row.revoked !== null) throw new AccessError(`The key ${row.prefix} is revoked already.`)
    const revoked = now()
    this.#database.prepare('UPDATE keys SET revoked = ? WHERE id = ?').run(revoked, row.id)
    this.#known.forget()
    return toKey({ ...row, revoked })
  }

  async findKey(digest: string): Promise<Key | undefined> {
    const known = this.#known.get(digest)
    if (known) return known
    const row = this.#keyByDigest.get(digest)
    if (!row || !timingSafeEqual(Buffer.from(row.digest), Buffer.from(digest))) return undefined
    return this.#known.set(digest, toKey(row))
  }
}

function toKey(row: KeyRow): Key {
  return {
    id: row.id,
    account: {
      id: row.account,
      name: row.account_name,
      created: row.account_created,
      suspended: row.account_suspended,
      limits: storedLimits(row.account_limits),
    },
    prefix: row.prefix,
    name: row.name,
    scopes: row.scopes.split(',').filter(isScope),
    created: row.created,
    expires: row.expires,
    revoked: row.revoked,
    lastUsed: row.last_used,
    limits: storedLimits(row.limits),
  }
}

function toAccount(row: AccountRow): Account {
  return { ...row, limits: storedLimits(row.limits) }
}

function unknownAccount(name: string): AccessError {
  return new AccessError(`There is no account ${JSON.stringify(name)}. See: conservatory accounts list`)
}

function now(): number {
  return Math.floor(Date.now() / 1000)
}
