import { DatabaseTimeout } from './failures.ts'

interface Waiting {
  readonly holder: unknown
  readonly enter: () => void
}

/**
 * Gives out slots for transactions. Each slot stands for one connection. Transactions get slots in the order in which they ask.
 * A holder, such as an account, has a limited share of the slots. While a holder uses its whole share, its next transaction
 * waits, and later transactions of other holders go first.
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

  /** How many slots exist, how many are used, and how many transactions wait for a slot. */
  get use(): { readonly max: number; readonly used: number; readonly waiting: number } {
    return { max: this.#max, used: this.#max - this.#free, waiting: this.#waiting.size }
  }

  /**
   * Takes a slot.
   * @param holder the holder whose share the slot counts against; undefined for a transaction that no share limits
   * @param timeoutMs how long to wait for a free slot
   * @returns a function that gives the slot back, to be called once
   * @throws DatabaseTimeout when no slot was free in time
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
