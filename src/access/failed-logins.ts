import { type Clock, machineClock } from '../clock.ts'
import { ApiError } from '../errors.ts'

/** Failures of an address in a minute that are answered at once. */
const free = 100
const minute = 60_000
/** Milliseconds: what each failure beyond those adds to the wait, and the longest wait. */
const step = 5
const longestWait = 1000
/** Failures of an address that may wait at a time. */
const mostWaiting = 64
/** Addresses that are remembered; the one that came first makes room. */
const mostAddresses = 10_000

interface Address {
  since: number
  failures: number
  waiting: number
}

/** Slows down who tries keys: the more of them failed, the longer an address waits to hear so. Good keys never wait. */
export class FailedLogins {
  readonly #addresses = new Map<string, Address>()
  readonly #clock: Clock

  /** @param clock tells how long a failure waits, and when a minute is over */
  constructor(clock: Clock = machineClock) {
    this.#clock = clock
  }

  /**
   * Resolves when a failure from this address may be told.
   * @throws ApiError 429 when too many of them wait
   */
  async slow(name: string): Promise<void> {
    const address = this.#address(name)
    address.failures++
    if (address.failures <= free) return
    if (address.waiting >= mostWaiting) {
      const message = 'Too many wrong keys came from your address. Check the key, and try again in a second.'
      throw new ApiError(429, 'too_many_failed_logins', message, { headers: { 'retry-after': '1' } })
    }
    address.waiting++
    const wait = Math.min(longestWait, (address.failures - free) * step)
    await new Promise<void>((resolve) => this.#clock.setTimeout(resolve, wait))
    address.waiting--
  }

  #address(name: string): Address {
    const now = this.#clock.now()
    const known = this.#addresses.get(name)
    if (known && now - known.since >= minute) {
      known.since = now
      known.failures = 0
    }
    if (known) return known
    if (this.#addresses.size >= mostAddresses) {
      const [oldest] = this.#addresses.keys()
      if (oldest !== undefined) this.#addresses.delete(oldest)
    }
    const address = { since: now, failures: 0, waiting: 0 }
    this.#addresses.set(name, address)
    return address
  }
}
