import { SumOfTurn, turnOfLoop } from '../../turn.ts'

/**
 * The units that are read in one turn of the event loop. Further pieces wait. A unit is about one JSON value (`cost-counter.ts`).
 * At up to 3 µs for each unit, these units take some 25 ms.
 */
const maxUnitsPerTurn = 8000
/** A piece with no more units never waits. In an ordinary stream, a piece is a few events and has fewer units. */
const maxUnitsWithoutWait = 100
/** The number of bytes that cost one unit. Relaying bytes and reading long strings is cheap, so the number is not small. */
const bytesPerUnit = 32

/** The units that the bytes of an answer or a request cost, whatever they contain. */
export function unitsOf(bytes: number): number {
  return bytes / bytesPerUnit
}

/**
 * Distributes the pieces of upstreams' answers, and the requests that provider packages write, among the turns of the event loop,
 * because there may be many of them in one turn, and each is read or written synchronously. A piece with more units than the bound of a turn shares its turn only with pieces that never
 * wait.
 */
export class TurnScheduler {
  /** The units of all pieces that were read. */
  readonly #taken = new SumOfTurn()
  readonly #waiting: { readonly turn: number; readonly units: number; readonly go: () => void }[] = []

  /**
   * Asks for the time to read a piece of so many units.
   * @returns undefined if the piece can be read now; otherwise a promise that resolves in the turn of the piece
   */
  take(units: number): Promise<void> | undefined {
    if (units <= maxUnitsWithoutWait || (this.#waiting.length === 0 && this.#fits(units))) {
      this.#taken.add(units)
      return undefined
    }
    if (this.#waiting.length === 0) setImmediate(this.#next)
    return new Promise((go) => this.#waiting.push({ turn: turnOfLoop(), units, go }))
  }

  #fits(units: number): boolean {
    const taken = this.#taken.value
    return taken === 0 || taken + units <= maxUnitsPerTurn
  }

  readonly #next = (): void => {
    // Pieces that never wait may fill every turn. So a piece that has waited since an earlier turn goes even if the turn is full.
    let mayGo = this.#waiting[0]?.turn !== turnOfLoop()
    for (let [first] = this.#waiting; first && (mayGo || this.#fits(first.units)); [first] = this.#waiting) {
      mayGo = false
      this.#waiting.shift()
      this.#taken.add(first.units)
      first.go()
    }
    if (this.#waiting.length > 0) setImmediate(this.#next)
  }
}

/** The scheduler of all models, because there is one event loop. */
export const turnScheduler = new TurnScheduler()
