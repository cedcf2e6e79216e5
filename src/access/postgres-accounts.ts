import type { Limits } from '../limit-values.ts'
import type { PlantTaker, PortablePlant } from '../plants/portable.ts'
import type { Queries, Transaction } from '../storage/postgres/database.ts'
import { unixSeconds } from '../time.ts'
import { AccessError, type Account, type LimitChanges, unknownAccount } from './access.ts'
import { type AccountRow, accountNamed, type PlantRow, toAccount, toPortable, withChanges } from './rows.ts'

/** Plants that are read or written at once. */
const batchSize = 1000
/** Before every id that there can be. */
const beforeAll = -(2 ** 53)

/** Accounts in PostgreSQL, and what they own where it goes with them. Transactions are the caller's. */
export class PostgresAccounts {
  async create(sql: Transaction, name: string, limits: Limits = {}): Promise<Account> {
    const trimmed = accountNamed(name)
    const created = unixSeconds()
    // Ids are counted, so that none is given twice, and nobody inherits the ledger of an account that is gone.
    const [counter] = await sql<{ value: number }[]>`
      UPDATE counters SET value = value + 1 WHERE name = 'accounts' RETURNING value`
    if (!counter) throw new Error('the table of counters is empty')
    const inserted = await sql`
      INSERT INTO accounts (id, name, created, limits)
      VALUES (${counter.value}, ${trimmed}, ${created}, ${JSON.stringify(limits)}) ON CONFLICT DO NOTHING RETURNING id`
    if (inserted.length === 0) throw new AccessError(`There is an account ${JSON.stringify(trimmed)} already.`)
    return { id: counter.value, name: trimmed, created, suspended: null, limits }
  }

  async list(sql: Queries): Promise<readonly Account[]> {
    return (await sql<AccountRow[]>`SELECT ${columns(sql)} FROM accounts ORDER BY id`).map(toAccount)
  }

  /** @throws AccessError when there is none of this name */
  async named(sql: Queries, name: string): Promise<Account> {
    const [row] = await sql<AccountRow[]>`
      SELECT ${columns(sql)} FROM accounts WHERE name = ${name.trim().replaceAll('\0', '')}`
    if (!row) throw unknownAccount(name)
    return toAccount(row)
  }

  async suspend(sql: Transaction, name: string): Promise<Account> {
    const account = await this.named(sql, name)
    if (account.suspended !== null) throw new AccessError(`The account ${JSON.stringify(name)} is suspended already.`)
    return setSuspended(sql, account, unixSeconds())
  }

  async resume(sql: Transaction, name: string): Promise<Account> {
    const account = await this.named(sql, name)
    if (account.suspended === null) throw new AccessError(`The account ${JSON.stringify(name)} is not suspended.`)
    return setSuspended(sql, account, null)
  }

  async limit(sql: Transaction, name: string, changes: LimitChanges): Promise<Account> {
    const account = await this.named(sql, name)
    const limits = withChanges(account.limits, changes)
    await sql`UPDATE accounts SET limits = ${JSON.stringify(limits)} WHERE id = ${account.id}`
    return { ...account, limits }
  }

  /** Whether any key is left with which an operator may do everything. One that has a successor does not count. */
  async hasAdmin(sql: Transaction): Promise<boolean> {
    const rows = await sql<{ scopes: string }[]>`
      SELECT DISTINCT keys.scopes FROM keys JOIN accounts ON accounts.id = keys.account
      WHERE revoked IS NULL AND (expires IS NULL OR expires > ${unixSeconds()}) AND accounts.suspended IS NULL`
    return rows.some(({ scopes }) => scopes.split(',').includes('admin'))
  }

  /** Hands over all plants of an account. All of them are to be of one moment: by a snapshot, or a lock on the account. */
  async exportPlants(sql: Queries, { id }: Account, taker: PlantTaker): Promise<void> {
    const [counted] = await sql<{ count: number }[]>`SELECT count(*) FROM plants WHERE account = ${id}`
    taker.begin(counted?.count ?? 0)
    for (let after = beforeAll; ; ) {
      const rows = await sql<PlantRow[]>`
        SELECT id, name, tag FROM plants WHERE account = ${id} AND id > ${after} ORDER BY id LIMIT ${batchSize}`
      taker.add(rows.map(toPortable))
      const last = rows.at(-1)
      if (!last) break
      after = last.id
    }
    taker.end()
  }

  /** Lets nobody write the account's plants until the transaction is over. */
  async lock(sql: Transaction, { id }: Account): Promise<void> {
    await sql`SELECT id FROM accounts WHERE id = ${id} FOR UPDATE`
  }

  async importPlants(
    sql: Transaction,
    { id }: Account,
    plants: readonly PortablePlant[],
    place: (index: number) => string,
  ): Promise<void> {
    for (let start = 0; start < plants.length; start += batchSize) {
      const batch = plants.slice(start, start + batchSize)
      const inserted = await sql<{ id: number }[]>`
        INSERT INTO plants (account, id, name, tag)
        SELECT ${id}::bigint, x.id, x.name, x.tag
        FROM json_to_recordset(${JSON.stringify(batch)}::text::json) AS x(id bigint, name text, tag text)
        ON CONFLICT DO NOTHING RETURNING id`
      if (inserted.length === batch.length) continue
      const left = inserted.map((row) => row.id)
      const index = batch.findIndex((plant, at) => !left.includes(plant.id) || isRepeated(batch, plant, at))
      throw new AccessError(
        `${place(start + index)}: there is a plant with the id ${batch[index]?.id} already. Nothing was imported.`,
      )
    }
  }

  async removePlants(sql: Transaction, { id }: Account): Promise<void> {
    await sql`DELETE FROM idempotency_keys WHERE account = ${id}`
    await sql`DELETE FROM plants WHERE account = ${id}`
  }

  /** Removes an account, whose plants are gone already. */
  async remove(sql: Transaction, { id }: Account): Promise<void> {
    await sql`DELETE FROM characters WHERE account = ${id}`
    await sql`DELETE FROM grants WHERE owner = ${id} OR grantee = ${id}`
    await sql`DELETE FROM keys WHERE account = ${id}`
    await sql`DELETE FROM accounts WHERE id = ${id}`
  }
}

/** Each by its name: a statement that is prepared fails once a newer version's column makes `*` another one. */
function columns(sql: Queries) {
  return sql`id, name, created, suspended, limits`
}

function isRepeated(plants: readonly PortablePlant[], { id }: PortablePlant, index: number): boolean {
  return plants.findIndex((plant) => plant.id === id) < index
}

async function setSuspended(sql: Transaction, account: Account, suspended: number | null): Promise<Account> {
  await sql`UPDATE accounts SET suspended = ${suspended} WHERE id = ${account.id}`
  return { ...account, suspended }
}
