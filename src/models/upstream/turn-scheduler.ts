/** Units of answers that one turn of the event loop is for: some 10 ms of the costliest. */
const maxUnitsPerTurn = 8000
/** Units of a piece that waits for none: it is a few events of an honest stream, which come one by one. */
const maxUnitsWithoutWait = 100
/** Bytes of a unit: what is only passed on, or is one long string, costs next to nothing. */
const bytesPerUnit = 32

/** What so many bytes of an answer cost, whatever is in them. Units. */
export function unitsOf(bytes: number): number {
  return bytes / bytesPerUnit
}

/**
 * Shares the event loop among the answers of upstreams: many can be there in one turn of it, and each is read in one
 * stretch. What is more than a turn's share has a turn for itself.
 */
export class TurnScheduler {
  #taken = 0
  #endsTurn = false
  readonly #waiting: { readonly units: number; readonly go: () => void }[] = []

  /** @returns nothing where there is room in this turn, or little is needed, and it is taken; else a promise of it in a later turn */
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

/** The turns of all answers: there is one event loop. */
export const answerScheduler = new TurnScheduler()
