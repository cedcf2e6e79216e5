import type { Sql, TransactionSql } from 'postgres'
import { codeOf } from '../../errors.ts'
import { isConnectionGone, RolledBack, Unconfirmed } from './failures.ts'

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
 * @throws RolledBack when the database has rolled the transaction back
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
  if (command === 'ROLLBACK') throw new RolledBack()
  if (command !== 'COMMIT') throw new Unconfirmed()
}

function never(): Promise<void> {
  return new Promise(() => {})
}
