import { overloaded } from '../errors.ts'
import { pruneOnce } from '../storage/prune.ts'
import { unixSeconds } from '../time.ts'
import type { CharacterStore } from './library/character.ts'

/* How both databases store large cards: docs/decisions/0030-plain-code-and-workers.md. */

/** The most bytes of a card that is stored as one value in its row. A larger card is stored in pieces of this size. */
export const pieceBytes = 256 * 1024

/** Whether a card is stored in pieces. */
export function isLarge(source: Buffer): boolean {
  return source.length > pieceBytes
}

/** The most pieces that one transaction removes: in SQLite this takes some 5 ms. */
export const maxRemovedPieces = 8

/** Seconds after which an unfinished upload counts as abandoned; a usual upload takes seconds. */
export const uploadTtlSeconds = 3600

/** The number of pieces into which so many bytes are cut. */
export function countPieces(bytes: number): number {
  return Math.ceil(bytes / pieceBytes)
}

/** The piece of a source at a position, from 0. */
export function pieceAt(source: Buffer, place: number): Buffer {
  return source.subarray(place * pieceBytes, (place + 1) * pieceBytes)
}

/** The error for an upload that took more than an hour, so its pieces were removed before all of them were written. */
export function uploadLost() {
  return overloaded('Writing the card took too long, and nothing of it is kept. Send it again.')
}

/** The error for a card whose version was stored when the upload began, and was removed meanwhile. */
export function versionRemoved() {
  return overloaded('This version of the card was removed meanwhile, and nothing is written. Send it again.')
}

/**
 * Removes the pieces of removed versions and of abandoned uploads, in small transactions. If that fails, the service removes
 * the pieces later.
 */
export async function removeAllLeftovers(store: Pick<CharacterStore, 'removeLeftovers'>): Promise<void> {
  const left = { prune: store.removeLeftovers.bind(store) }
  await pruneOnce(left, unixSeconds() - uploadTtlSeconds).catch(() => undefined)
}

/** A FIFO queue for the writes of pieces of all uploads, with bounded concurrency. */
export class PieceQueue {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(maxConcurrent: number) {
    this.#free = maxConcurrent
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
