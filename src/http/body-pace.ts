import { SumOfTurn } from '../turn.ts'

/**
 * The bytes of large bodies that are taken in one turn of the event loop. They take 1 to 5 ms. Further bodies wait. If a turn took
 * more bytes, other requests would wait longer. If it took fewer bytes, a large body would arrive more slowly.
 */
const maxBytesPerTurn = 1024 ** 2
/**
 * The bytes that a body takes before it can be paused: Node reads about this number from a socket at once. Blocks of a body are
 * moved in parts of this size.
 */
export const bytesOfPart = 64 * 1024

/** A body whose pieces are taken, or moved in memory. */
interface PacedBody {
  pause(): unknown
  resume(): unknown
}

/**
 * Distributes the bytes of large bodies among the turns of the event loop. In one turn, Node reads all sockets that have data,
 * and up to 2 MiB from each socket. So the bodies of many clients would block the loop together. When the bytes of a turn are
 * used up, each body is paused after its next piece. The paused bodies continue in later turns, in the order of their pauses.
 */
export class BodyPace {
  /** The bytes that were taken from all bodies. */
  readonly #taken = new SumOfTurn()
  readonly #paused: PacedBody[] = []
  /** Whether paused bodies continue in the next turn. */
  #isScheduled = false

  /** Counts bytes that were taken from a body, and pauses the body if this turn has no bytes left. @returns whether it is paused */
  take(body: PacedBody, bytes: number): boolean {
    if (this.#taken.add(bytes) < maxBytesPerTurn) return false
    body.pause()
    this.#paused.push(body)
    this.#schedule()
    return true
  }

  #schedule(): void {
    if (this.#isScheduled || this.#paused.length === 0) return
    this.#isScheduled = true
    setImmediate(this.#continue)
  }

  readonly #continue = (): void => {
    const left = maxBytesPerTurn - this.#taken.value
    // At least one body continues in each turn, even if bodies that are not paused use up the bytes of every turn.
    const count = Math.max(1, Math.floor(left / bytesOfPart))
    // A body may be paused again immediately.
    for (const body of this.#paused.splice(0, count)) body.resume()
    this.#isScheduled = false
    this.#schedule()
  }
}
