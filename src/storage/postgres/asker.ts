import { AsyncLocalStorage } from 'node:async_hooks'

/** The request for which something is asked of the database. */
export interface Asker {
  /** The account's id; undefined while it is not known. */
  account(): number | undefined
  /** Whether its reply has begun, or its caller has left: from then on nobody waits for it. */
  isAnswered(): boolean
}

/** Follows how long one request has waited for the database. What it asks at the same time counts once. */
export class WaitingTime {
  readonly asker: Asker
  #usedMs = 0
  #waits = 0
  #since = 0

  constructor(asker: Asker) {
    this.asker = asker
  }

  get usedMs(): number {
    return this.#usedMs + (this.#waits > 0 ? performance.now() - this.#since : 0)
  }

  begin(): void {
    if (this.#waits++ === 0) this.#since = performance.now()
  }

  end(): void {
    if (--this.#waits === 0) this.#usedMs += performance.now() - this.#since
  }
}

const current = new AsyncLocalStorage<WaitingTime | undefined>()

/** Does something for a request: all that it asks of the database until its reply begins shares one time. */
export function askedBy<T>(asker: Asker, work: () => T): T {
  return current.run(new WaitingTime(asker), work)
}

/** Does something whose time is bounded in another way: it is not part of the request's. */
export function askedByNobody<T>(work: () => T): T {
  return current.run(undefined, work)
}

/** The account that something is asked for; undefined where no request waits for it. */
export function askingAccount(): number | undefined {
  return currentTime()?.asker.account()
}

/**
 * Waits for the database in the time that is left to the request.
 * @param patience milliseconds that a whole request may wait
 * @param work is told how many milliseconds are left
 */
export async function inTimeLeft<T>(patience: number, work: (milliseconds: number) => Promise<T>): Promise<T> {
  const time = currentTime()
  if (!time) return await work(patience)
  const left = patience - time.usedMs
  time.begin()
  try {
    return await work(left)
  } finally {
    time.end()
  }
}

/**
 * The time of the request that asks, if one does. Timers that a request has started still know it; once it is answered they
 * have a time of their own.
 */
export function currentTime(): WaitingTime | undefined {
  const time = current.getStore()
  return time?.asker.isAnswered() ? undefined : time
}
