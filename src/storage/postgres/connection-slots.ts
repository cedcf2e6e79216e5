import { DatabaseTimeout } from './failures.ts'

interface Waiting {
  readonly holder: unknown
  readonly enter: () => void
}

/**
 * Slots for transactions, each with a connection. Slots are given in the order of the requests for them. A holder that
 * already has its share waits, and later requests of other holders pass it.
 */
export class ConnectionSlots {
  readonly #max: number
  readonly #maxPerHolder: number
  readonly #used = new Map<unknown, number>()
  readonly #waiting = new Set<Waiting>()
  #free: number

  constructor(max: number, maxPerHolder: number) {
    this.#max = max
    this.#free = max
    this.#maxPerHolder = maxPerHolder
  }

  /** How many slots exist and are used, and how many transactions wait for one. */
  get use(): { readonly max: number; readonly used: number; readonly waiting: number } {
    return { max: this.#max, used: this.#max - this.#free, waiting: this.#waiting.size }
  }

  /**
   * Takes a slot.
   * @param holder whose share it is taken from; undefined for a transaction without a share
   * @param timeoutMs how long it waits for a free slot
   * @returns a function that gives the slot back, to be called once
   * @throws DatabaseTimeout
   */
  enter(holder: unknown, timeoutMs: number): Promise<() => void> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        holder,
        enter: () => {
          clearTimeout(timer)
          this.#waiting.delete(waiting)
          this.#count(holder, 1)
          resolve(() => this.#leave(holder))
        },
      }
      const timer = setTimeout(
        () => {
          this.#waiting.delete(waiting)
          reject(new DatabaseTimeout('no connection was free in time'))
        },
        Math.max(0, timeoutMs),
      )
      this.#waiting.add(waiting)
      this.#admit()
    })
  }

  #leave(holder: unknown): void {
    this.#count(holder, -1)
    this.#admit()
  }

  #admit(): void {
    for (const { holder, enter } of this.#waiting) {
      if (this.#free === 0) return
      if ((this.#used.get(holder) ?? 0) < this.#maxPerHolder) enter()
    }
  }

  #count(holder: unknown, change: 1 | -1): void {
    this.#free -= change
    if (holder === undefined) return
    const used = (this.#used.get(holder) ?? 0) + change
    if (used > 0) this.#used.set(holder, used)
    else this.#used.delete(holder)
  }
}
