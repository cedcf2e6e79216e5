import type { Sql, TransactionSql } from 'postgres'
import { isConnectionGone } from './failures.ts'

/**
 * Does a transaction. The client library, when a connection is lost, sends ROLLBACK or the next statement down a socket
 * that is no more, and that ends the process; here nothing is sent after a loss.
 * @param work its answer is called right before the commit is sent
 * @throws what `work` throws, which undoes the transaction, and what the database says
 */
export async function begin<Types extends Record<string, unknown>>(
  pool: Sql<Types>,
  work: (sql: TransactionSql<Types>) => Promise<() => void>,
): Promise<void> {
  let loss: { readonly reason: unknown } | undefined
  // The library rejects its own promise as soon as the connection is gone, whatever the work does.
  const begun = pool.begin(async (sql) => {
    const guarded = new Proxy(sql, {
      apply(target, self, values) {
        if (loss) throw loss.reason
        return Reflect.apply(target, self, values)
      },
    })
    try {
      const commit = await work(guarded)
      if (loss) return await never()
      commit()
    } catch (error) {
      if (loss || isConnectionGone(error)) return await never()
      throw error
    }
  })
  begun.catch((reason: unknown) => {
    loss = { reason }
  })
  await begun
}

function never(): Promise<void> {
  return new Promise(() => {})
}
