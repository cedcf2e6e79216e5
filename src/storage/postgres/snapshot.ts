import type { Sql, TransactionSql } from 'postgres'

/**
 * A transaction that shows one moment, until it is ended. It is the client's own kind of transaction, which tells of a
 * lost connection: a reserved connection would be made again, and show another moment.
 */
export class Snapshot<Types extends Record<string, unknown>> {
  /** What runs statements in it, once it is open. */
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

  /** @throws what the database says, when the connection was lost: what was read since is of another moment */
  check(): void {
    if (this.#failure) throw this.#failure.reason
  }

  /** Ends it, also when it is not open yet. */
  end(): void {
    // The client library would send its COMMIT down a connection that is gone, and end the process: that it is gone is
    // known at the end of this turn.
    setImmediate(() => {
      if (!this.#failure) this.#ending.resolve()
    })
  }
}
