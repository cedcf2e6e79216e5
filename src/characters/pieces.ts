import { overloaded } from '../errors.ts'
import { pruneOnce } from '../storage/prune.ts'
import { unixSeconds } from '../time.ts'
import type { CharacterStore } from './library/character.ts'

/* How large cards are kept, on every engine: docs/decisions/0023-bytes-in-flight.md. */

/** Bytes of a card up to which it is one value of its row; a larger one is kept in pieces of so many. */
export const pieceBytes = 256 * 1024

/** Pieces that one transaction removes at most: in SQLite some 5 ms. */
export const maxRemovedPieces = 8

/** Seconds after which an upload that has not come to its end has come to nothing; it takes seconds. */
export const uploadsKeptFor = 3600

/** How many pieces so many bytes are. */
export function countPieces(bytes: number): number {
  return Math.ceil(bytes / pieceBytes)
}

/** The piece at a place. */
export function pieceAt(source: Buffer, place: number): Buffer {
  return source.subarray(place * pieceBytes, (place + 1) * pieceBytes)
}

/** The refusal of a card whose pieces were removed before it was whole, since writing them took longer than an hour. */
export function uploadLost() {
  return overloaded('Writing the card took too long, and nothing of it is kept. Send it again.')
}

/** Removes all pieces that no version has, in small transactions. A service does the same later where this fails. */
export async function removeAllLeftovers(store: Pick<CharacterStore, 'removeLeftovers'>): Promise<void> {
  const left = { prune: store.removeLeftovers.bind(store) }
  await pruneOnce(left, unixSeconds() - uploadsKeptFor).catch(() => undefined)
}

/** Lets pieces of all uploads be written in the order in which they are ready, so many at once. */
export class PieceQueue {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(atOnce: number) {
    this.#free = atOnce
  }

  /** Does a write when its turn has come. */
  async run<T>(write: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
    try {
      return await write()
    } finally {
      const next = this.#waiting.shift()
      if (next) next()
      else this.#free++
    }
  }
}
