import type { Sql, TransactionSql } from 'postgres'
import { codeOf } from '../../errors.ts'
import { isConnectionGone, RolledBack, Unconfirmed } from './failures.ts'

/** SQLSTATE of a COMMIT outside a transaction: PostgreSQL warns, answers `COMMIT`, and has committed nothing. */
const noTransaction = '25P01'
/** SQLSTATEs that refuse a COMMIT and leave open what was done; the second is statement_completion_unknown. */
const doubtful = new Set([noTransaction, '40003'])

/** Counts what a pool's server warned of that makes commits doubtful. */
export class Warnings {
  #count = 0

  get count(): number {
    return this.#count
  }

  /** Takes a notice of the server. It does not tell whose it is: it counts for all transactions that are being ended. */
  readonly note = ({ code }: { readonly [field: string]: string }): void => {
    if (code === noTransaction) this.#count++
  }
}

/**
 * Does a transaction. Its COMMIT is sent and read here: the client library sends one as a prepared statement, again where a
 * pooler has lost that, and takes any answer for success. The library also, when a connection is lost, sends ROLLBACK or the
 * next statement down a socket that is no more, and that ends the process; here nothing is sent after a loss.
 * @param work its answer is called right before the commit is sent
 * @throws what `work` throws, which undoes the transaction, and what the database says
 * @throws RolledBack when the database has undone it
 * @throws Unconfirmed when it does not say that it has committed, or that there was no transaction
 */
export async function begin<Types extends Record<string, unknown>>(
  pool: Sql<Types>,
  warnings: Warnings,
  work: (sql: TransactionSql<Types>) => Promise<() => void>,
): Promise<void> {
  const warned = warnings.count
  let loss: { readonly reason: unknown } | undefined
  const committed = Promise.withResolvers<void>()
  // The library rejects its own promise as soon as the connection is gone, whatever the work does.
  const begun = pool.begin(async (sql) => {
    const guarded = new Proxy(sql, {
      apply(target, self, values) {
        if (loss) throw loss.reason
        return Reflect.apply(target, self, values)
      },
    })
    try {
      const tell = await work(guarded)
      if (loss) return await never()
      tell()
    } catch (error) {
      if (loss || isConnectionGone(error)) return await never()
      throw error
    }
    commit(sql).then(committed.resolve, committed.reject)
    // The connection goes back to the pool, and the library's own COMMIT or ROLLBACK would be that of another transaction.
    return never()
  })
  begun.catch((reason: unknown) => {
    loss = { reason }
  })
  const [end] = await Promise.allSettled([Promise.race([begun, committed.promise])])
  // Its statements may have been done one by one, whatever came of it.
  if (warnings.count > warned) throw new Unconfirmed()
  if (end.status === 'rejected') throw end.reason
}

/** Commits, and reads the answer. */
async function commit<Types extends Record<string, unknown>>(sql: TransactionSql<Types>): Promise<void> {
  const { command } = await sql.unsafe('COMMIT').catch((error: unknown) => {
    throw doubtful.has(codeOf(error)) ? new Unconfirmed() : error
  })
  if (command === 'ROLLBACK') throw new RolledBack()
  if (command !== 'COMMIT') throw new Unconfirmed()
}

function never(): Promise<void> {
  return new Promise(() => {})
}
