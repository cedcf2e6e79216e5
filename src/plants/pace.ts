import { type Clock, machineClock } from '../clock.ts'

/** Milliseconds that a batch is to take while nobody else writes, and between two looks whether a service runs. */
const bulkMs = 200
const lookMs = 1000
/** Milliseconds that others have after a batch at least, beside a service. */
const pauseMs = 20
/** Plants of a batch. */
const smallest = 50
const largest = 5000

/** What a pace depends on. */
interface Served {
  /** Milliseconds that a batch may take beside a service. */
  readonly batchMs: number
  isServed(): Promise<boolean>
}

/**
 * How large batches of plants are, and how long others have between two: much at once while no service runs, and beside one
 * a few milliseconds with as long a pause at least.
 */
export class Pace {
  readonly #served: Served
  readonly #clock: Clock
  /** The first batches are small, as if a service ran and writing were slow. */
  #isServed = true
  #lookedAt = Number.NEGATIVE_INFINITY
  #msPerPlant = 0.05

  constructor(served: Served, clock = machineClock) {
    this.#served = served
    this.#clock = clock
  }

  /** How many plants the next batch is to have. */
  get size(): number {
    const targetMs = this.#isServed ? this.#served.batchMs : bulkMs
    return Math.min(largest, Math.max(smallest, Math.floor(targetMs / this.#msPerPlant)))
  }

  /** Does a batch of so many plants, and then leaves others their time. */
  async take<T>(plants: number, batch: () => Promise<T>): Promise<T> {
    const start = this.#clock.now()
    const result = await batch()
    const end = this.#clock.now()
    const tookMs = end - start
    if (plants > 0) this.#msPerPlant = (this.#msPerPlant + tookMs / plants) / 2
    if (end - this.#lookedAt >= lookMs) {
      this.#lookedAt = end
      this.#isServed = await this.#served.isServed()
    }
    if (this.#isServed) {
      await new Promise<void>((resolve) => this.#clock.setTimeout(resolve, Math.max(tookMs, pauseMs)))
    }
    return result
  }
}

/** The same items in lists as long as the pace wants them. */
export async function* inBatches<T>(lists: AsyncIterable<readonly T[]>, pace: Pace): AsyncGenerator<readonly T[]> {
  let waiting: readonly T[] = []
  for await (const list of lists) {
    waiting = waiting.length === 0 ? list : [...waiting, ...list]
    let start = 0
    for (let { size } = pace; waiting.length - start >= size; { size } = pace) {
      yield waiting.slice(start, start + size)
      start += size
    }
    waiting = waiting.slice(start)
  }
  if (waiting.length > 0) yield waiting
}
