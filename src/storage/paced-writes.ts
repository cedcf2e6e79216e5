import type { Scheduler, Steps } from '../work.ts'

/**
 * Runs the transactions of SQLite that wait for the disk. Each of them blocks the event loop, and many callers may write in one
 * turn of the loop. So in a service these transactions take turns with the other work of requests, fair by account.
 */
export class PacedWrites {
  #scheduler: Scheduler | undefined

  /** From now on, transactions take turns in this scheduler. A command has nothing else to do, and never calls this. */
  begin(scheduler: Scheduler): void {
    this.#scheduler = scheduler
  }

  /**
   * Runs a transaction now if no other work waits and this turn has time left, otherwise when its turn comes.
   * @param account the account that writes
   * @throws ApiError 503 if the transaction could not begin within 20 s: nothing is written then; and the errors of `write`
   */
  async run<T>(account: number, write: () => T): Promise<T> {
    return this.#scheduler ? await this.#scheduler.workOf({ account }).run('write', onlyStep(write)) : write()
  }
}

function* onlyStep<T>(write: () => T): Steps<T> {
  // The cost is counted by the clock, like that of every slice.
  yield 1
  return write()
}
