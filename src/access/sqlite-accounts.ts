import type { Database, Statement } from 'better-sqlite3'
import type { Limits } from '../limit-values.ts'
import { unixSeconds } from '../time.ts'
import { AccessError, type Account, type LimitChanges, unknownAccount } from './access.ts'
import { type AccountRow, accountNamed, toAccount, withChanges } from './rows.ts'

/** Accounts in SQLite. Transactions are the caller's. */
export class SqliteAccounts {
  readonly #database: Database
  readonly #byName: Statement<[string], AccountRow>

  constructor(database: Database) {
    this.#database = database
    this.#byName = database.prepare('SELECT * FROM accounts WHERE name = ?')
  }

  create(name: string, limits: Limits = {}): Account {
    const trimmed = accountNamed(name)
    const created = unixSeconds()
    const result = this.#database
      .prepare('INSERT INTO accounts (name, created, limits) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING')
      .run(trimmed, created, JSON.stringify(limits))
    if (result.changes === 0) throw new AccessError(`There is an account ${JSON.stringify(trimmed)} already.`)
    return { id: Number(result.lastInsertRowid), name: trimmed, created, suspended: null, limits }
  }

  list(): readonly Account[] {
    return this.#database.prepare<[], AccountRow>('SELECT * FROM accounts ORDER BY id').all().map(toAccount)
  }

  /** @throws AccessError when there is none of this name */
  named(name: string): Account {
    const row = this.#byName.get(name.trim())
    if (!row) throw unknownAccount(name)
    return toAccount(row)
  }

  suspend(name: string): Account {
    const account = this.named(name)
    if (account.suspended !== null) throw new AccessError(`The account ${JSON.stringify(name)} is suspended already.`)
    return this.#setSuspended(account, unixSeconds())
  }

  resume(name: string): Account {
    const account = this.named(name)
    if (account.suspended === null) throw new AccessError(`The account ${JSON.stringify(name)} is not suspended.`)
    return this.#setSuspended(account, null)
  }

  limit(name: string, changes: LimitChanges): Account {
    const account = this.named(name)
    const limits = withChanges(account.limits, changes)
    this.#database.prepare('UPDATE accounts SET limits = ? WHERE id = ?').run(JSON.stringify(limits), account.id)
    return { ...account, limits }
  }

  /** Whether any key is left with which an operator may do everything. One that has a successor does not count. */
  hasAdmin(): boolean {
    const scopes = this.#database
      .prepare<[number], string>(`
        SELECT DISTINCT keys.scopes FROM keys JOIN accounts ON accounts.id = keys.account
        WHERE revoked IS NULL AND (expires IS NULL OR expires > ?) AND accounts.suspended IS NULL`)
      .pluck()
      .all(unixSeconds())
    return scopes.some((held) => held.split(',').includes('admin'))
  }

  /** Removes an account, of which nothing is left but its keys. */
  remove({ id }: Account): void {
    this.#database.prepare('DELETE FROM keys WHERE account = ?').run(id)
    this.#database.prepare('DELETE FROM accounts WHERE id = ?').run(id)
  }

  #setSuspended(account: Account, suspended: number | null): Account {
    this.#database.prepare('UPDATE accounts SET suspended = ? WHERE id = ?').run(suspended, account.id)
    return { ...account, suspended }
  }
}
