import { performance } from 'node:perf_hooks'

/**
 * The number of this turn of the event loop. The number rises immediately before the sockets are read. So the callbacks of
 * sockets, the immediates and the timers until the next reading have the same number (docs.libuv.org, "The I/O loop").
 */
export function turnOfLoop(): number {
  return performance.nodeTiming.uvMetricsInfo.loopCount
}

/** A sum that begins with 0 in each turn of the event loop. */
export class SumOfTurn {
  #turn = 0
  #sum = 0

  /** The sum in this turn. */
  get value(): number {
    const turn = turnOfLoop()
    if (turn !== this.#turn) {
      this.#turn = turn
      this.#sum = 0
    }
    return this.#sum
  }

  /** Adds an amount of this turn. @returns the sum */
  add(amount: number): number {
    this.#sum = this.value + amount
    return this.#sum
  }
}
