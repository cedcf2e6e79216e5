import { TookTooLong } from './failures.ts'

interface Waiting {
  readonly who: unknown
  readonly enter: () => void
}

/**
 * Places for transactions, each with a connection. They are had in the order in which they were asked for, but for an asker
 * that has its share already: that one waits, and the others pass.
 */
export class Places {
  readonly #most: number
  readonly #mostOfOne: number
  readonly #held = new Map<unknown, number>()
  readonly #waiting = new Set<Waiting>()
  #free: number

  /**
   * @param most how many there are
   * @param mostOfOne how many of them one asker may have
   */
  constructor(most: number, mostOfOne: number) {
    this.#most = most
    this.#free = most
    this.#mostOfOne = mostOfOne
  }

  /** How many there are, are taken and are waited for. */
  get use(): { readonly most: number; readonly used: number; readonly waiting: number } {
    return { most: this.#most, used: this.#most - this.#free, waiting: this.#waiting.size }
  }

  /**
   * Takes a place.
   * @param who the asker; undefined for one without a share
   * @param milliseconds how long it waits at most
   * @returns what gives the place back, to be called once
   * @throws TookTooLong
   */
  enter(who: unknown, milliseconds: number): Promise<() => void> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        who,
        enter: () => {
          clearTimeout(timer)
          this.#waiting.delete(waiting)
          this.#count(who, 1)
          resolve(() => this.#leave(who))
        },
      }
      const timer = setTimeout(
        () => {
          this.#waiting.delete(waiting)
          reject(new TookTooLong('no connection was free in time'))
        },
        Math.max(0, milliseconds),
      )
      this.#waiting.add(waiting)
      this.#admit()
    })
  }

  #leave(who: unknown): void {
    this.#count(who, -1)
    this.#admit()
  }

  #admit(): void {
    for (const { who, enter } of this.#waiting) {
      if (this.#free === 0) return
      if ((this.#held.get(who) ?? 0) < this.#mostOfOne) enter()
    }
  }

  #count(who: unknown, change: 1 | -1): void {
    this.#free -= change
    if (who === undefined) return
    const held = (this.#held.get(who) ?? 0) + change
    if (held > 0) this.#held.set(who, held)
    else this.#held.delete(who)
  }
}
