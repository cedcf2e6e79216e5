import { type Clock, machineClock } from '../clock.ts'

/** Milliseconds that a batch is to take while nobody else writes, and between two looks whether a service runs. */
const aloneBatchMs = 200
const checkIntervalMs = 1000
/** Milliseconds that others have after a batch at least, beside a service. */
const minPauseMs = 20
/** Plants of a batch. */
const minBatchPlants = 50
const maxBatchPlants = 5000

/** What a pace depends on. */
interface PacedService {
  /** Milliseconds that a batch may take beside a service. */
  readonly maxBatchMs: number
  isServiceRunning(): Promise<boolean>
}

/**
 * How large batches of plants are, and how long others have between two: much at once while no service runs, and beside one
 * a few milliseconds with as long a pause at least.
 */
export class Pace {
  readonly #service: PacedService
  readonly #clock: Clock
  /** The first batches are small, as if a service ran and writing were slow. */
  #isServiceRunning = true
  #checkedAtMs = Number.NEGATIVE_INFINITY
  #msPerPlant = 0.05

  constructor(service: PacedService, clock = machineClock) {
    this.#service = service
    this.#clock = clock
  }

  /** How many plants the next batch is to have. */
  get size(): number {
    const targetMs = this.#isServiceRunning ? this.#service.maxBatchMs : aloneBatchMs
    return Math.min(maxBatchPlants, Math.max(minBatchPlants, Math.floor(targetMs / this.#msPerPlant)))
  }

  /** Does a batch of so many plants, and then leaves others their time. */
  async take<T>(plants: number, batch: () => Promise<T>): Promise<T> {
    const start = this.#clock.now()
    const result = await batch()
    const end = this.#clock.now()
    const tookMs = end - start
    if (plants > 0) this.#msPerPlant = (this.#msPerPlant + tookMs / plants) / 2
    if (end - this.#checkedAtMs >= checkIntervalMs) {
      this.#checkedAtMs = end
      this.#isServiceRunning = await this.#service.isServiceRunning()
    }
    if (this.#isServiceRunning) {
      await new Promise<void>((resolve) => this.#clock.setTimeout(resolve, Math.max(tookMs, minPauseMs)))
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
