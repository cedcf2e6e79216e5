import type { Sql, TransactionSql } from 'postgres'

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
