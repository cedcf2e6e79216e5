import type { Readable } from 'node:stream'
import { SumOfTurn } from '../turn.ts'

/** The bytes of large bodies that are taken in one turn of the event loop, before the other bodies wait: some 4 ms. */
const maxBytesPerTurn = 4 * 1024 ** 2
/** A body that continues takes about so many bytes before it can be paused again: what Node reads from a socket at once. */
const bytesOfRead = 64 * 1024

/**
 * Distributes the bytes of large bodies among the turns of the event loop. Node reads all sockets that have data in one turn, and
 * up to 2 MiB from each; so the bodies of many clients would block the loop together. Beyond the bytes of a turn, each body is
 * paused after its next piece, and the paused bodies continue in later turns, in their order.
 */
export class BodyPace {
  /** The bytes that were taken from all bodies. */
  readonly #taken = new SumOfTurn()
  readonly #paused: Readable[] = []

  /** Counts bytes that were taken from a body, and pauses the body if this turn has no bytes left. */
  take(body: Readable, bytes: number): void {
    if (this.#taken.add(bytes) < maxBytesPerTurn) return
    body.pause()
    if (this.#paused.length === 0) setImmediate(this.#continue)
    this.#paused.push(body)
  }

  readonly #continue = (): void => {
    const left = maxBytesPerTurn - this.#taken.value
    // At least one body continues in each turn, even if the bodies that are not paused fill every turn.
    const count = Math.max(1, Math.floor(left / bytesOfRead))
    for (const body of this.#paused.splice(0, count)) body.resume()
    if (this.#paused.length > 0) setImmediate(this.#continue)
  }
}
