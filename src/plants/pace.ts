import { type Clock, machineClock } from '../clock.ts'

/** The time of a batch while no service runs, and the time between two checks of whether a service runs. */
const aloneBatchMs = 200
const checkIntervalMs = 1000
/** The shortest pause after a batch while a service runs. */
const minPauseMs = 20
const minBatchPlants = 50
const maxBatchPlants = 5000

/** The facts about a service on which the pace depends. */
interface PacedService {
  /** The time of a batch while a service runs. */
  readonly maxBatchMs: number
  isServiceRunning(): Promise<boolean>
}

/**
 * Sets the size of batches of plants and the pauses between them. While no service runs, batches are large. While a service runs,
 * a batch takes a few milliseconds, and a pause of at least the same length follows.
 */
export class Pace {
  readonly #service: PacedService
  readonly #clock: Clock
  /** True at first, so that the first batches are small. */
  #isServiceRunning = true
  #checkedAtMs = Number.NEGATIVE_INFINITY
  #msPerPlant = 0.05

  constructor(service: PacedService, clock = machineClock) {
    this.#service = service
    this.#clock = clock
  }

  /** The number of plants of the next batch. */
  get size(): number {
    const targetMs = this.#isServiceRunning ? this.#service.maxBatchMs : aloneBatchMs
    return Math.min(maxBatchPlants, Math.max(minBatchPlants, Math.floor(targetMs / this.#msPerPlant)))
  }

  /** Runs a batch of so many plants. While a service runs, a pause follows, in which the service can write. */
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

/** Regroups items into batches of the pace's size. */
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
