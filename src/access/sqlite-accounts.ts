import type { Database, Statement } from 'better-sqlite3'
import type { AccountLimits } from '../limit-values.ts'
import { unixSeconds } from '../time.ts'
import { type Account, type AccountLimitChanges, unknownAccount } from './access.ts'
import { type ModelList, modelsToStore } from './model-lists.ts'
import { accountNamed, accountTaken, holdsAdmin, limited, resumed, suspended, withModels } from './policy.ts'
import { type AccountRow, type AdminRow, selectAdmins, toAccount } from './rows.ts'

/** Accounts in SQLite. The caller runs the transactions. */
export class SqliteAccounts {
  readonly #database: Database
  readonly #byName: Statement<[string], AccountRow>

  constructor(database: Database) {
    this.#database = database
    this.#byName = database.prepare('SELECT * FROM accounts WHERE name = ?')
  }

  create(name: string, limits: AccountLimits = {}, models: ModelList | null = null): Account {
    const trimmed = accountNamed(name)
    const created = unixSeconds()
    const result = this.#database
      .prepare('INSERT INTO accounts (name, created, limits, models) VALUES (?, ?, ?, ?) ON CONFLICT (name) DO NOTHING')
      .run(trimmed, created, JSON.stringify(limits), modelsToStore(models))
    if (result.changes === 0) throw accountTaken(trimmed)
    return { id: Number(result.lastInsertRowid), name: trimmed, created, suspended: null, limits, models }
  }

  list(): readonly Account[] {
    return this.#database.prepare<[], AccountRow>('SELECT * FROM accounts ORDER BY id').all().map(toAccount)
  }

  /** The id of an account; undefined for null and for a name that no account has. */
  idOf(name: string | null): number | undefined {
    return name === null ? undefined : this.#byName.get(name)?.id
  }

  /** @throws AccessError when no account has this name */
  named(name: string): Account {
    const row = this.#byName.get(name.trim())
    if (!row) throw unknownAccount(name)
    return toAccount(row)
  }

  suspend(name: string): Account {
    return this.#setSuspended(suspended(this.named(name), name, unixSeconds()))
  }

  resume(name: string): Account {
    return this.#setSuspended(resumed(this.named(name), name))
  }

  limit(name: string, changes: AccountLimitChanges, models?: ModelList | null): Account {
    const account = withModels(limited(this.named(name), changes), models)
    this.#database
      .prepare('UPDATE accounts SET limits = ?, models = ? WHERE id = ?')
      .run(JSON.stringify(account.limits), modelsToStore(account.models), account.id)
    return account
  }

  /** Whether there is a working key of the scope `admin`. */
  hasAdmin(): boolean {
    return holdsAdmin(this.#database.prepare<[], AdminRow>(selectAdmins).all(), unixSeconds())
  }

  /** Removes an account and its keys. The caller has removed all other data of the account, except its usage. */
  remove({ id }: Account): void {
    this.#database.prepare('DELETE FROM keys WHERE account = ?').run(id)
    this.#database.prepare('DELETE FROM accounts WHERE id = ?').run(id)
  }

  #setSuspended(account: Account): Account {
    this.#database.prepare('UPDATE accounts SET suspended = ? WHERE id = ?').run(account.suspended, account.id)
    return account
  }
}
