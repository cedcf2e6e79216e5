import { type Clock, machineClock } from '../clock.ts'
import { ApiError } from '../errors.ts'

/** Failures of one address in a minute that are answered without delay. */
const freeFailures = 100
const minuteMs = 60_000
/** Each further failure makes the delay longer by this step. */
const stepMs = 5
const maxWaitMs = 1000
/** The most failures of one address that are delayed at the same time. A further failure gets a 429. */
const maxWaiting = 64
/** The most addresses that are tracked. For a further address, the address that was added first is dropped. */
const maxAddresses = 10_000

interface Address {
  since: number
  failures: number
  waiting: number
}

/**
 * Slows down attackers who guess keys: the more failures an address has, the later is its next 401. A request with a valid
 * key is never delayed. An IPv6 network of 64 bits counts as one address (`networkOf`).
 */
export class FailedLogins {
  readonly #addresses = new Map<string, Address>()
  readonly #clock: Clock

  /** @param clock the clock for the delays and the minute */
  constructor(clock: Clock = machineClock) {
    this.#clock = clock
  }

  /**
   * Resolves when the 401 may be sent to this address.
   * @throws ApiError 429 when too many failures of the address wait
   */
  async slow(name: string): Promise<void> {
    const address = this.#address(name)
    address.failures++
    if (address.failures <= freeFailures) return
    if (address.waiting >= maxWaiting) {
      const message = 'Too many wrong keys came from your address. Check the key, and try again in a second.'
      throw new ApiError(429, 'too_many_failed_logins', message, { headers: { 'retry-after': '1' } })
    }
    address.waiting++
    const waitMs = Math.min(maxWaitMs, (address.failures - freeFailures) * stepMs)
    await new Promise<void>((resolve) => this.#clock.setTimeout(resolve, waitMs))
    address.waiting--
  }

  #address(name: string): Address {
    const now = this.#clock.now()
    const known = this.#addresses.get(name)
    if (known && now - known.since >= minuteMs) {
      known.since = now
      known.failures = 0
    }
    if (known) return known
    if (this.#addresses.size >= maxAddresses) {
      const [oldest] = this.#addresses.keys()
      if (oldest !== undefined) this.#addresses.delete(oldest)
    }
    const address = { since: now, failures: 0, waiting: 0 }
    this.#addresses.set(name, address)
    return address
  }
}
