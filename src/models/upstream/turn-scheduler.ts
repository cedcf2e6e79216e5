/**
 * Units that are read in one turn of the event loop before other pieces wait. A unit is about one JSON value (`cost-counter.ts`).
 * At up to 3 µs for each unit, these are some 25 ms.
 */
const maxUnitsPerTurn = 8000
/** A piece with no more units than this never waits: it is a few events of an ordinary stream, which arrive one by one. */
const maxUnitsWithoutWait = 100
/** The number of bytes that cost one unit. It is not small, because relaying bytes and reading long strings is cheap. */
const bytesPerUnit = 32

/** The units that the bytes of an answer cost, whatever they contain. */
export function unitsOf(bytes: number): number {
  return bytes / bytesPerUnit
}

/**
 * Distributes the pieces of upstreams' answers among the turns of the event loop: many pieces may arrive in one turn, and each is
 * read synchronously. A piece with more units than a turn may read gets a turn for itself.
 */
export class TurnScheduler {
  #taken = 0
  #endsTurn = false
  readonly #waiting: { readonly units: number; readonly go: () => void }[] = []

  /**
   * Asks for the time to read a piece of so many units.
   * @returns undefined if the piece can be read now; otherwise a promise that resolves in the turn of the piece
   */
  take(units: number): Promise<void> | undefined {
    if (units <= maxUnitsWithoutWait || (this.#waiting.length === 0 && this.#fits(units))) {
      this.#count(units)
      return undefined
    }
    return new Promise((go) => this.#waiting.push({ units, go }))
  }

  #fits(units: number): boolean {
    return this.#taken === 0 || this.#taken + units <= maxUnitsPerTurn
  }

  #count(units: number): void {
    this.#taken += units
    if (this.#endsTurn) return
    this.#endsTurn = true
    setImmediate(() => this.#next())
  }

  #next(): void {
    this.#taken = 0
    this.#endsTurn = false
    for (let [first] = this.#waiting; first && this.#fits(first.units); [first] = this.#waiting) {
      this.#waiting.shift()
      this.#count(first.units)
      first.go()
    }
  }
}

/** The scheduler of all answers, because there is one event loop. */
export const answerScheduler = new TurnScheduler()
