import { type ApiError, overloaded } from '../errors.ts'

/** Maximum reports of one account: one that is being made, and one that waits. */
const maxReports = 2

/** The queue of one account's reports. */
interface Queue {
  length: number
  last: Promise<unknown>
}

/**
 * Makes one report of an account at a time. A report may read millions of rows: the sums of a period, or, for a search, all
 * requests of the period. Many reports in parallel would take time and memory from all other requests.
 */
export class Reports {
  readonly #queues = new Map<number, Queue>()

  /**
   * Makes a report after the account's earlier reports.
   * @throws ApiError 503 if the account's queue is full; and the errors of `make`
   */
  async make<T>(account: number, make: () => Promise<T>): Promise<T> {
    const queue = this.#queues.get(account) ?? { length: 0, last: Promise.resolve() }
    if (queue.length >= maxReports) throw tooMany()
    this.#queues.set(account, queue)
    queue.length++
    const made = queue.last.then(make)
    queue.last = made.catch(() => undefined)
    try {
      return await made
    } finally {
      queue.length--
      if (queue.length === 0) this.#queues.delete(account)
    }
  }
}

function tooMany(): ApiError {
  const message = `${maxReports} usage reports or searches of your account are in progress. Try again when they are done.`
  return overloaded(message)
}
