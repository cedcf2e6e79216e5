import { randomUUID } from 'node:crypto'
import { type ApiError, overloaded } from '../errors.ts'
import { pruneOnce } from '../storage/prune.ts'
import { query, type Script } from '../storage/scripts.ts'
import { unixSeconds } from '../time.ts'
import type { CharacterStore, VersionKey } from './library/character.ts'

/* How both databases store large cards: docs/decisions/0030-plain-code-and-workers.md. */

/** The most bytes of a card that is stored as one value in its row. A larger card is stored in pieces of this size. */
export const pieceBytes = 256 * 1024

/** Whether a card is stored in pieces. */
export function isLarge(source: Buffer): boolean {
  return source.length > pieceBytes
}

/** The most pieces that one transaction removes: in SQLite this takes some 5 ms. */
const maxRemovedPieces = 8

/** Seconds after which an unfinished upload counts as abandoned; a usual upload takes seconds. */
export const uploadTtlSeconds = 3600

/** The error for an upload that took more than an hour, so its pieces were removed before all of them were written. */
export function uploadLost(): ApiError {
  return overloaded('Writing the card took too long, and nothing of it is kept. Send it again.')
}

/** The error for a card whose version was stored when the upload began, and was removed meanwhile. */
export function versionRemoved(): ApiError {
  return overloaded('This version of the card was removed meanwhile, and nothing is written. Send it again.')
}

/**
 * Writes the pieces of a card, each in its own transaction, then calls `write`, which assigns them to a version. Pieces that stay
 * unassigned are marked as abandoned.
 * @param run runs a transaction
 * @param addPiece the script that adds a piece to an upload
 * @throws the errors of `run` and `write`
 */
export async function withPieces<T>(
  source: Buffer,
  run: (script: () => Script<unknown>) => Promise<unknown>,
  addPiece: (upload: string, place: number, piece: Buffer) => Script<unknown>,
  write: (upload: string) => Promise<T>,
): Promise<T> {
  const upload = randomUUID()
  const insert = 'INSERT INTO uploads (id, begun, bytes) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING'
  await run(() => query(insert, upload, unixSeconds(), source.length))
  try {
    for (let place = 0; place * pieceBytes < source.length; place++) {
      const piece = source.subarray(place * pieceBytes, (place + 1) * pieceBytes)
      await run(() => addPiece(upload, place, piece))
    }
    return await write(upload)
  } finally {
    // If this fails, unassigned pieces are removed after an hour.
    const abandon = 'UPDATE uploads SET begun = 0 WHERE id = $1 AND account IS NULL'
    await run(() => query(abandon, upload)).catch(() => undefined)
  }
}

/**
 * Assigns the pieces of an upload to a version, in the transaction that adds the version.
 * @throws ApiError 503 if pieces are missing
 */
export function* assignPieces(upload: string, { account, name, digest }: VersionKey, bytes: number): Script<void> {
  // The update locks the row before the pieces are counted. `removePieces` locks this row too, so it cannot remove pieces after
  // the count.
  const assign = 'UPDATE uploads SET begun = 0, account = $2, name = $3, digest = $4 WHERE id = $1'
  yield* query(assign, upload, account, name, digest)
  const count = 'SELECT count(*) AS count FROM card_pieces WHERE upload = $1'
  const [pieces] = yield* query<{ count: number }>(count, upload)
  if (pieces?.count !== Math.ceil(bytes / pieceBytes)) throw uploadLost()
}

/** See `CharacterStore.removeLeftovers`. @param forUpdate locks the row of the upload until the transaction ends */
export function* removePieces(before: number, maxRows: number, forUpdate: string): Script<number> {
  const [left] = yield* query<{ id: string }>(
    `SELECT id FROM uploads WHERE account IS NULL AND begun < $1 ORDER BY begun LIMIT 1 ${forUpdate}`,
    before,
  )
  if (!left) return 0
  const maxPieces = Math.min(maxRows, maxRemovedPieces)
  const { length } = yield* query(
    `DELETE FROM card_pieces WHERE upload = $1 AND place IN
      (SELECT place FROM card_pieces WHERE upload = $1 ORDER BY place LIMIT $2)
    RETURNING place`,
    ...[left.id, maxPieces],
  )
  if (length === maxPieces) return length
  yield* query('DELETE FROM uploads WHERE id = $1', left.id)
  return length + 1
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
