/** Units of answers that one turn of the event loop may read: about 10 ms of the most expensive ones. */
const maxUnitsPerTurn = 8000
/** A smaller piece never waits: it is a few events of an ordinary stream, which come one by one. */
const maxUnitsWithoutWait = 100
/** Bytes that cost one unit: relaying bytes and reading long strings is cheap. */
const bytesPerUnit = 32

/** Units that the bytes of an answer cost, whatever they contain. */
export function unitsOf(bytes: number): number {
  return bytes / bytesPerUnit
}

/**
 * Shares the event loop among the answers of upstreams: many may arrive in one turn, and each is read synchronously. An answer of
 * more units than a turn may read has a turn for itself.
 */
export class TurnScheduler {
  #taken = 0
  #endsTurn = false
  readonly #waiting: { readonly units: number; readonly go: () => void }[] = []

  /** @returns undefined where the units fit into this turn or are few; else a promise of a later turn */
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

/** Shared by all answers, because there is one event loop. */
export const answerScheduler = new TurnScheduler()
