import { type ApiError, overloaded } from '../errors.ts'

/** Reports of one account that may be under way: one is made, another may wait for it. */
const maxReports = 2

/** The reports of one account that are under way. */
interface Queue {
  length: number
  last: Promise<unknown>
}

/**
 * Makes one report of an account at a time: each reads all requests of a period, which may be millions, so that many at
 * once would take the time and the memory of all others.
 */
export class Reports {
  readonly #queues = new Map<number, Queue>()

  /**
   * Makes a report when those of the account before it are done.
   * @throws ApiError 503 where too many of them wait already, and whatever `make` throws
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
  const message = `${maxReports} reports of your account's usage are being made. Try again when they are done.`
  return overloaded(message)
}
