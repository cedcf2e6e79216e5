import { randomUUID } from 'node:crypto'
import type { PostgresDatabase, Transaction } from '../storage/postgres/database.ts'
import { isForeignKeyViolation } from '../storage/postgres/failures.ts'
import { escapeNul } from '../storage/postgres/texts.ts'
import { unixSeconds } from '../time.ts'
import type { VersionKey } from './library/character.ts'
import { countPieces, maxRemovedPieces, PieceQueue, pieceAt, uploadLost } from './pieces.ts'

/** The most pieces that are written in parallel. Each takes a connection, and other requests need connections too. */
const maxParallelWrites = 3

/**
 * The pieces of large cards in PostgreSQL. Each piece is written in its own transaction. Pieces are sent and read as base64: the
 * driver would send bytes as hexadecimal text, which makes more garbage (docs/decisions/0030-plain-code-and-workers.md).
 */
export class PostgresPieces {
  readonly #database: PostgresDatabase
  readonly #queue = new PieceQueue(maxParallelWrites)

  constructor(database: PostgresDatabase) {
    this.#database = database
  }

  /**
   * Writes the pieces of a card, then calls `write`, which assigns them to a version. Pieces that stay unassigned are marked as
   * abandoned.
   * @throws the errors of `write`, and ApiError 503 if the database does not answer or the pieces were removed meanwhile
   */
  async withPieces<T>(source: Buffer, write: (upload: string) => Promise<T>): Promise<T> {
    const upload = randomUUID()
    await this.#write(
      (sql) => sql`
        INSERT INTO uploads (id, begun, bytes) VALUES (${upload}, ${unixSeconds()}, ${source.length})
        ON CONFLICT DO NOTHING`,
    )
    try {
      for (let place = 0; place < countPieces(source.length); place++) {
        const piece = pieceAt(source, place).toString('base64')
        // The piece may exist already: the transaction is retried if the result of the first try is unknown.
        await this.#write(
          (sql) => sql`
            INSERT INTO card_pieces (upload, place, bytes) VALUES (${upload}, ${place}, decode(${piece}, 'base64'))
            ON CONFLICT DO NOTHING`,
        )
      }
      return await write(upload)
    } finally {
      // If this fails, unassigned pieces are removed after an hour.
      await this.#write((sql) => sql`UPDATE uploads SET begun = 0 WHERE id = ${upload} AND account IS NULL`).catch(
        () => undefined,
      )
    }
  }

  /** The pieces of an upload in order. */
  async *read(upload: string): AsyncIterable<Buffer> {
    for (let place = 0; ; place++) {
      const [piece] = await this.#database.read(
        (sql) => sql<{ base64: string }[]>`
          SELECT encode(bytes, 'base64') AS base64 FROM card_pieces WHERE upload = ${upload} AND place = ${place}`,
      )
      if (!piece) return
      yield Buffer.from(piece.base64, 'base64')
    }
  }

  /** See `CharacterStore.removeLeftovers`. */
  removeLeftovers(before: number, maxRows: number): Promise<number> {
    const maxPieces = Math.min(maxRows, maxRemovedPieces)
    return this.#database.transaction(async (sql) => {
      // A transaction that assigns this upload at the same time waits for the lock. Then it finds that pieces are missing.
      const [left] = await sql<{ id: string }[]>`
        SELECT id FROM uploads WHERE account IS NULL AND begun < ${before} ORDER BY begun LIMIT 1 FOR UPDATE`
      if (!left) return 0
      const pieces = await sql`
        DELETE FROM card_pieces WHERE upload = ${left.id} AND place IN
          (SELECT place FROM card_pieces WHERE upload = ${left.id} ORDER BY place LIMIT ${maxPieces})
        RETURNING place`
      if (pieces.length === maxPieces) return maxPieces
      await sql`DELETE FROM uploads WHERE id = ${left.id}`
      return pieces.length + 1
    })
  }

  /** Runs one transaction. @throws ApiError 503 if the upload was removed or the database does not answer */
  async #write(write: (sql: Transaction) => Promise<unknown>): Promise<void> {
    try {
      await this.#queue.run(() => this.#database.transaction(write))
    } catch (error) {
      throw isForeignKeyViolation(error) ? uploadLost() : error
    }
  }
}

/**
 * Assigns the pieces of an upload to a version. Call it in the transaction that adds the version.
 * @throws ApiError 503 if pieces are missing
 */
export async function assignPieces(
  sql: Transaction,
  upload: string,
  { account, name, digest }: VersionKey,
  bytes: number,
): Promise<void> {
  // The update locks the row before the pieces are counted. `removeLeftovers` needs this lock too, so it cannot remove pieces
  // after the count.
  await sql`
    UPDATE uploads SET begun = 0, account = ${account}, name = ${escapeNul(name)}, digest = ${digest}
    WHERE id = ${upload}`
  const [pieces] = await sql<{ count: number }[]>`SELECT count(*) AS count FROM card_pieces WHERE upload = ${upload}`
  if (pieces?.count !== countPieces(bytes)) throw uploadLost()
}
