import { overloaded } from '../errors.ts'
import { pruneOnce } from '../storage/prune.ts'
import { unixSeconds } from '../time.ts'
import type { CharacterStore } from './library/character.ts'

/* How all engines store large cards: docs/decisions/0023-bytes-in-flight.md. */

/** Bytes of a card that is stored as one value in its row; a larger card is stored in pieces of this size. */
export const pieceBytes = 256 * 1024

/** Pieces that one transaction removes: in SQLite some 5 ms. */
export const maxRemovedPieces = 8

/** Seconds after which an unfinished upload counts as abandoned; uploads take seconds. */
export const uploadTtlSeconds = 3600

/** The number of pieces of so many bytes. */
export function countPieces(bytes: number): number {
  return Math.ceil(bytes / pieceBytes)
}

/** The piece with an index. */
export function pieceAt(source: Buffer, place: number): Buffer {
  return source.subarray(place * pieceBytes, (place + 1) * pieceBytes)
}

/** The error for an upload that took more than an hour, so that its pieces were removed before it was complete. */
export function uploadLost() {
  return overloaded('Writing the card took too long, and nothing of it is kept. Send it again.')
}

/** Removes all pieces without a version, in small transactions. If that fails, the next service that runs removes them. */
export async function removeAllLeftovers(store: Pick<CharacterStore, 'removeLeftovers'>): Promise<void> {
  const left = { prune: store.removeLeftovers.bind(store) }
  await pruneOnce(left, unixSeconds() - uploadTtlSeconds).catch(() => undefined)
}

/** A FIFO queue of writes of pieces, for all uploads, with bounded concurrency. */
export class PieceQueue {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(atOnce: number) {
    this.#free = atOnce
  }

  /** Runs a write when a slot is free. */
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
