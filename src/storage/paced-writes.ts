import type { Scheduler, Steps } from '../work.ts'

/**
 * Runs the transactions of SQLite that wait for the disk. Each such transaction blocks the event loop, and many callers may write
 * in one turn of the loop. So in a service, a scheduler runs these transactions between the other work of requests, and gives
 * each account an equal share.
 */
export class PacedWrites {
  #scheduler: Scheduler | undefined

  /** From now on, this scheduler runs the transactions. A command never calls this method, because it has no other work. */
  begin(scheduler: Scheduler): void {
    this.#scheduler = scheduler
  }

  /**
   * Runs a transaction now if no other work waits and this turn has time left. Otherwise the transaction waits in the scheduler.
   * @param account the account that writes
   * @throws ApiError 503, with nothing written, if the transaction could not begin within 20 s; the errors of `write`
   */
  async run<T>(account: number, write: () => T): Promise<T> {
    return this.#scheduler ? await this.#scheduler.workOf({ account }).run('write', onlyStep(write)) : write()
  }
}

function* onlyStep<T>(write: () => T): Steps<T> {
  // The number is small, because the scheduler measures the time of each slice by the clock.
  yield 1
  return write()
}
