import { AsyncLocalStorage } from 'node:async_hooks'

/** A request that uses the database. */
export interface WaitingRequest {
  /** The account's id; undefined while it is not known. */
  account(): number | undefined
  /** Whether its reply has begun or its client has disconnected: from then on no client waits for the database. */
  isAnswered(): boolean
}

/** Measures how long one request has waited for the database. The time of waits that overlap counts once. */
export class RequestTime {
  readonly request: WaitingRequest
  #usedMs = 0
  #waits = 0
  #since = 0

  constructor(request: WaitingRequest) {
    this.request = request
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

const current = new AsyncLocalStorage<RequestTime | undefined>()

/** Runs the work of a request: its waits for the database share one time limit until the reply begins. */
export function duringRequest<T>(request: WaitingRequest, work: () => T): T {
  return current.run(new RequestTime(request), work)
}

/** Runs work outside the current request: the work has a time limit of its own. */
export function outsideRequest<T>(work: () => T): T {
  return current.run(undefined, work)
}

/** The account of the current request; undefined if it is not known, outside a request, and after the reply has begun. */
export function requestAccount(): number | undefined {
  return currentRequestTime()?.request.account()
}

/**
 * Waits for the database in the time that the request has left.
 * @param timeoutMs how long a whole request may wait
 * @param work gets the milliseconds that are left
 */
export async function withinRequestTime<T>(timeoutMs: number, work: (leftMs: number) => Promise<T>): Promise<T> {
  const time = currentRequestTime()
  if (!time) return await work(timeoutMs)
  const leftMs = timeoutMs - time.usedMs
  time.begin()
  try {
    return await work(leftMs)
  } finally {
    time.end()
  }
}

/**
 * The time of the current request; undefined outside a request, and after the reply has begun or the client has disconnected.
 * A timer that a request has started runs in the context of this request. After the reply, the timer has its own time limit.
 */
export function currentRequestTime(): RequestTime | undefined {
  const time = current.getStore()
  return time?.request.isAnswered() ? undefined : time
}
