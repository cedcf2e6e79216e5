import type { Sql, TransactionSql } from 'postgres'
import { codeOf } from '../../errors.ts'
import { Conflict, isConnectionGone, Unconfirmed } from './failures.ts'

/** SQLSTATE of a COMMIT outside a transaction: PostgreSQL warns, answers `COMMIT`, and has committed nothing. */
const noTransaction = '25P01'
/** SQLSTATEs of a COMMIT whose outcome is unknown. 40003 is statement_completion_unknown. */
const uncertain = new Set([noTransaction, '40003'])

/** Counts the server's warnings that make commits uncertain. */
export class Warnings {
  #count = 0

  get count(): number {
    return this.#count
  }

  /** Takes a notice of the server. A notice names no transaction, so it counts for all transactions that are running. */
  readonly note = ({ code }: { readonly [field: string]: string }): void => {
    if (code === noTransaction) this.#count++
  }
}

/**
 * Runs a transaction, and sends the COMMIT without the client library's help. The library would send COMMIT as a prepared
 * statement, repeat it when a pooler has lost that statement, and take any answer for success. After a connection is lost, the
 * library would also send ROLLBACK or the next statement to the closed socket, and that would end the process. This function
 * sends nothing after a loss.
 * @param work returns a function that is called right before the commit is sent
 * @throws what `work` throws, after a rollback, and the errors of the database
 * @throws Conflict when the database has rolled the transaction back
 * @throws Unconfirmed when the database did not confirm the commit, or had no transaction open
 */
export async function runTransaction<Types extends Record<string, unknown>>(
  pool: Sql<Types>,
  warnings: Warnings,
  work: (sql: TransactionSql<Types>) => Promise<() => void>,
): Promise<void> {
  const warned = warnings.count
  let loss: { readonly reason: unknown } | undefined
  const committed = Promise.withResolvers<void>()
  // The library rejects this promise as soon as the connection is gone, whatever the work does.
  const begun = pool.begin(async (sql) => {
    const guarded = new Proxy(sql, {
      apply(target, self, values) {
        if (loss) throw loss.reason
        return Reflect.apply(target, self, values)
      },
    })
    try {
      const beforeCommit = await work(guarded)
      if (loss) return await never()
      beforeCommit()
    } catch (error) {
      if (loss || isConnectionGone(error)) return await never()
      throw error
    }
    commit(sql).then(committed.resolve, committed.reject)
    // This promise never resolves. Otherwise the library would send a second COMMIT. After the first COMMIT the connection is
    // back in the pool, so the second COMMIT would hit another transaction.
    return never()
  })
  begun.catch((reason: unknown) => {
    loss = { reason }
  })
  const [end] = await Promise.allSettled([Promise.race([begun, committed.promise])])
  // If no transaction was open, the statements may have been committed one by one.
  if (warnings.count > warned) throw new Unconfirmed()
  if (end.status === 'rejected') throw end.reason
}

async function commit<Types extends Record<string, unknown>>(sql: TransactionSql<Types>): Promise<void> {
  const { command } = await sql.unsafe('COMMIT').catch((error: unknown) => {
    throw uncertain.has(codeOf(error)) ? new Unconfirmed() : error
  })
  if (command === 'ROLLBACK')
    throw new Conflict('40000', 'the database has undone the transaction instead of committing it')
  if (command !== 'COMMIT') throw new Unconfirmed()
}

function never(): Promise<void> {
  return new Promise(() => {})
}

/**
 * A read-only transaction that shows one snapshot until it ends. The class uses the client library's `begin`, which rejects when
 * the connection is lost. A reserved connection would connect again without an error, and show another snapshot.
 */
export class Snapshot<Types extends Record<string, unknown>> {
  /** Resolves with the transaction once it is open. */
  readonly opened: Promise<TransactionSql<Types>>
  readonly #ending = Promise.withResolvers<void>()
  #failure: { readonly reason: unknown } | undefined

  constructor(pool: Sql<Types>) {
    const { promise, resolve, reject } = Promise.withResolvers<TransactionSql<Types>>()
    this.opened = promise
    pool
      .begin('ISOLATION LEVEL REPEATABLE READ READ ONLY', (sql) => {
        resolve(sql)
        return this.#ending.promise
      })
      .catch((reason: unknown) => {
        this.#failure = { reason }
        reject(reason)
      })
  }

  /** @throws the database's error when the connection was lost: later reads would not be from this snapshot */
  check(): void {
    if (this.#failure) throw this.#failure.reason
  }

  /** Ends the transaction, even if it is not open yet. */
  end(): void {
    // If the connection is lost, the client library would send COMMIT to the closed socket, and that would end the process. A
    // loss is known only at the end of this turn of the event loop.
    setImmediate(() => {
      if (!this.#failure) this.#ending.resolve()
    })
  }
}
