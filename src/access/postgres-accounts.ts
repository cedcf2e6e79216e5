import type { AccountLimits } from '../limit-values.ts'
import type { Queries, Transaction } from '../storage/postgres/database.ts'
import { unixSeconds } from '../time.ts'
import { type Account, type AccountLimitChanges, unknownAccount } from './access.ts'
import { type ModelList, modelsToStore } from './model-lists.ts'
import { accountNamed, accountTaken, holdsAdmin, limited, resumed, suspended, withModels } from './policy.ts'
import { type AccountRow, type AdminRow, selectAdmins, toAccount } from './rows.ts'

/** Accounts in PostgreSQL. The caller runs the transactions. */
export class PostgresAccounts {
  async create(
    sql: Transaction,
    name: string,
    limits: AccountLimits = {},
    models: ModelList | null = null,
  ): Promise<Account> {
    const trimmed = accountNamed(name)
    const created = unixSeconds()
    // A counter gives each id only once. Otherwise, a new account could get the id and the ledger of a deleted account.
    const [counter] = await sql<{ value: number }[]>`
      UPDATE counters SET value = value + 1 WHERE name = 'accounts' RETURNING value`
    if (!counter) throw new Error('the table of counters is empty')
    const inserted = await sql`
      INSERT INTO accounts (id, name, created, limits, models)
      VALUES (${counter.value}, ${trimmed}, ${created}, ${JSON.stringify(limits)}, ${modelsToStore(models)})
      ON CONFLICT DO NOTHING RETURNING id`
    if (inserted.length === 0) throw accountTaken(trimmed)
    return { id: counter.value, name: trimmed, created, suspended: null, limits, models }
  }

  async list(sql: Queries): Promise<readonly Account[]> {
    return (await sql<AccountRow[]>`SELECT ${columns(sql)} FROM accounts ORDER BY id`).map(toAccount)
  }

  /** @throws AccessError when no account has this name */
  async named(sql: Queries, name: string): Promise<Account> {
    const [row] = await sql<AccountRow[]>`
      SELECT ${columns(sql)} FROM accounts WHERE name = ${name.trim().replaceAll('\0', '')}`
    if (!row) throw unknownAccount(name)
    return toAccount(row)
  }

  async suspend(sql: Transaction, name: string): Promise<Account> {
    return setSuspended(sql, suspended(await this.named(sql, name), name, unixSeconds()))
  }

  async resume(sql: Transaction, name: string): Promise<Account> {
    return setSuspended(sql, resumed(await this.named(sql, name), name))
  }

  async limit(
    sql: Transaction,
    name: string,
    changes: AccountLimitChanges,
    models?: ModelList | null,
  ): Promise<Account> {
    const account = withModels(limited(await this.named(sql, name), changes), models)
    await sql`
      UPDATE accounts SET limits = ${JSON.stringify(account.limits)}, models = ${modelsToStore(account.models)}
      WHERE id = ${account.id}`
    return account
  }

  /** Whether there is a working key of the scope `admin`. */
  async hasAdmin(sql: Transaction): Promise<boolean> {
    return holdsAdmin(await sql<AdminRow[]>`${sql.unsafe(selectAdmins)}`, unixSeconds())
  }

  /** Locks the account against all writes until the transaction ends. */
  async lock(sql: Transaction, { id }: Account): Promise<void> {
    await sql`SELECT id FROM accounts WHERE id = ${id} FOR UPDATE`
  }

  /** Locks the keys of an account against other changes of keys until the transaction ends. */
  async lockKeys(sql: Transaction, { id }: Account): Promise<void> {
    await sql`SELECT id FROM accounts WHERE id = ${id} FOR NO KEY UPDATE`
  }

  /** Removes an account and its keys. The caller has removed all other data of the account, except its usage. */
  async remove(sql: Transaction, { id }: Account): Promise<void> {
    await sql`DELETE FROM keys WHERE account = ${id}`
    await sql`DELETE FROM accounts WHERE id = ${id}`
  }
}

/** The names of an account's columns: a prepared statement with `*` fails after a newer release has added a column. */
function columns(sql: Queries) {
  return sql`id, name, created, suspended, limits, models`
}

async function setSuspended(sql: Transaction, account: Account): Promise<Account> {
  await sql`UPDATE accounts SET suspended = ${account.suspended} WHERE id = ${account.id}`
  return account
}
