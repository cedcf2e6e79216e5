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

/** A piece that waits, and the turn of the event loop in which it began to wait. */
interface WaitingPiece {
  readonly turn: number
  readonly units: number
  readonly go: () => void
}

/**
 * Distributes the pieces of upstreams' answers, and the requests that provider packages write, among the turns of the event loop,
 * because there may be many of them in one turn, and each is read or written synchronously. A long piece has more units than the
 * bound of a turn, so it shares its turn only with pieces that never wait. Long and short pieces take turns, so that the events of
 * ordinary streams wait for one long piece, and not for all.
 */
export class TurnScheduler {
  /** The units of all pieces that were read. */
  readonly #taken = new SumOfTurn()
  readonly #short: WaitingPiece[] = []
  readonly #long: WaitingPiece[] = []
  #wasLong = false

  /**
   * Asks for the time to read a piece of so many units.
   * @returns undefined if the piece can be read now; otherwise a promise that resolves in the turn of the piece
   */
  take(units: number): Promise<void> | undefined {
    if (units <= maxUnitsWithoutWait || (!this.#isAwaited && this.#fits(units))) {
      this.#add(units)
      return undefined
    }
    if (!this.#isAwaited) setImmediate(this.#next)
    const waiting = isLong(units) ? this.#long : this.#short
    return new Promise((go) => waiting.push({ turn: turnOfLoop(), units, go }))
  }

  /** Whether a piece waits. */
  get #isAwaited(): boolean {
    return this.#short.length > 0 || this.#long.length > 0
  }

  #fits(units: number): boolean {
    const taken = this.#taken.value
    return taken === 0 || taken + units <= maxUnitsPerTurn
  }

  #add(units: number): void {
    this.#taken.add(units)
    if (units > maxUnitsWithoutWait) this.#wasLong = isLong(units)
  }

  readonly #next = (): void => {
    const isTurnOfLong = this.#short.length === 0 || (this.#long.length > 0 && !this.#wasLong)
    const waiting = isTurnOfLong ? this.#long : this.#short
    // Pieces that never wait may fill every turn. So a piece that has waited since an earlier turn goes even if the turn is full.
    let mayGo = waiting[0]?.turn !== turnOfLoop()
    for (let [first] = waiting; first && (mayGo || this.#fits(first.units)); [first] = waiting) {
      mayGo = false
      waiting.shift()
      this.#add(first.units)
      first.go()
    }
    if (this.#isAwaited) setImmediate(this.#next)
  }
}

function isLong(units: number): boolean {
  return units > maxUnitsPerTurn
}

/** The scheduler of all models, because there is one event loop. */
export const turnScheduler = new TurnScheduler()
