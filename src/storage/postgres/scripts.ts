import { ApiError } from '../../errors.ts'
import type { Run, Script, Scripts, Value } from '../scripts.ts'
import { accountGone } from '../write-error.ts'
import type { PostgresDatabase, Queries, Transaction } from './database.ts'
import { awaitingLock, PostgresGroupCommit } from './group-commit.ts'

/** Runs a script on a connection or in a transaction of PostgreSQL. @throws the errors of the database and of the script */
export async function runScript<T>(sql: Queries, script: Script<T>): Promise<T> {
  const run: Run = async <Row extends object>(
    text: string,
    lists: readonly (readonly Value[])[],
    take: (rows: readonly Row[]) => void,
  ) => {
    const results = await Promise.all(lists.map((values) => sql.unsafe<Row[]>(text, [...values], { prepare: true })))
    take(results.flat())
  }
  for (;;) {
    const step = script.next()
    if (step.done) return step.value
    await step.value(run)
  }
}

/** A script in the queue of the group commit, with the account whose row it locks. */
interface QueuedScript {
  readonly account: number
  /** Runs the script, and keeps its result for the caller. */
  readonly run: (sql: Transaction) => Promise<void>
}

/** Runs scripts on a PostgreSQL database. */
export class PostgresScripts implements Scripts {
  readonly #database: PostgresDatabase
  readonly #commit: PostgresGroupCommit<QueuedScript, null>

  constructor(database: PostgresDatabase) {
    this.#database = database
    this.#commit = new PostgresGroupCommit(database, { commit: runAll, ownerOf: ({ account }) => account })
  }

  read<T>(script: () => Script<T>): Promise<T> {
    return this.#database.read((sql) => runScript(sql, script()))
  }

  readPortion<T>(script: () => Script<T>): Promise<T> {
    return this.read(script)
  }

  async write<T>(account: number, script: () => Script<T>): Promise<T> {
    let done: { readonly value: T } | undefined
    const run = async (sql: Transaction) => {
      done = undefined
      done = { value: await runScript(sql, script()) }
    }
    await this.#commit.add({ account, run })
    if (!done) throw new Error('a script in a committed batch has no result')
    return done.value
  }

  writeLong<T>(account: number, script: () => Script<T>): Promise<T> {
    return this.write(account, script)
  }

  writeAside<T>(script: () => Script<T>): Promise<T> {
    // All these transactions together use at most two connections: other requests need connections too.
    const options = { sharer: this }
    return this.#database.transaction((sql) => runScript(sql, script()), undefined, options)
  }
}

/** Runs the scripts of a batch in their order. The rows of their accounts stay locked until the transaction ends. */
async function runAll(
  sql: Transaction,
  writes: readonly QueuedScript[],
  mayWait: boolean,
): Promise<readonly (null | ApiError | typeof awaitingLock)[]> {
  const { existing, locked } = await lockAccounts(sql, writes, mayWait)
  const answers: (null | ApiError | typeof awaitingLock)[] = []
  for (const { account, run } of writes) {
    if (!locked.has(account)) {
      answers.push(existing.has(account) ? awaitingLock : accountGone(undefined))
      continue
    }
    try {
      await run(sql)
      answers.push(null)
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      answers.push(error)
    }
  }
  return answers
}

/**
 * Locks the rows of the accounts of some writes, until the transaction ends.
 * @param mayWait whether to wait for accounts that other transactions have locked; otherwise they are not locked
 * @returns the accounts that exist, and those of them that are locked now
 */
export async function lockAccounts(
  sql: Transaction,
  writes: readonly { readonly account: number }[],
  mayWait: boolean,
): Promise<{ readonly existing: ReadonlySet<number>; readonly locked: ReadonlySet<number> }> {
  const accounts = JSON.stringify([...new Set(writes.map(({ account }) => account))].map((account) => ({ account })))
  const asked = sql`SELECT account FROM json_to_recordset(${accounts}::text::json) AS asked (account BIGINT)`
  const skip = mayWait ? sql`` : sql`SKIP LOCKED`
  const [existing, locked] = await Promise.all([
    sql<{ id: number }[]>`SELECT id FROM accounts WHERE id IN (${asked})`,
    sql<{ id: number }[]>`SELECT id FROM accounts WHERE id IN (${asked}) ORDER BY id FOR NO KEY UPDATE ${skip}`,
  ])
  return { existing: idsOf(existing), locked: idsOf(locked) }
}

function idsOf(rows: readonly { readonly id: number }[]): ReadonlySet<number> {
  return new Set(rows.map(({ id }) => id))
}
