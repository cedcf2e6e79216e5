import { randomUUID } from 'node:crypto'
import type { PostgresDatabase, Transaction } from '../storage/postgres/database.ts'
import { isOrphan } from '../storage/postgres/failures.ts'
import { escapeNul } from '../storage/postgres/texts.ts'
import { unixSeconds } from '../time.ts'
import type { VersionKey } from './library/character.ts'
import { countPieces, maxRemovedPieces, PieceQueue, pieceAt, uploadLost } from './pieces.ts'

/** Pieces that are on their way to the server at once: others need connections too. */
const atOnce = 3

/**
 * The pieces of large cards in PostgreSQL: each is written in a transaction of its own. They go there and back as base64: as bytes the
 * driver would write them in hexadecimal digits, and twice at that.
 */
export class PostgresPieces {
  readonly #database: PostgresDatabase
  readonly #queue = new PieceQueue(atOnce)

  constructor(database: PostgresDatabase) {
    this.#database = database
  }

  /**
   * Writes the pieces of a card, lets `write` give them to a version, and leaves them to be removed where it does not.
   * @throws what it throws; ApiError 503 where the database does not answer
   */
  async during<T>(source: Buffer, write: (upload: string) => Promise<T>): Promise<T> {
    const upload = randomUUID()
    await this.#write(
      (sql) => sql`
        INSERT INTO uploads (id, begun, bytes) VALUES (${upload}, ${unixSeconds()}, ${source.length})
        ON CONFLICT DO NOTHING`,
    )
    try {
      for (let place = 0; place < countPieces(source.length); place++) {
        const piece = pieceAt(source, place).toString('base64')
        // Twice where it is not known whether the first time came through.
        await this.#write(
          (sql) => sql`
            INSERT INTO card_pieces (upload, place, bytes) VALUES (${upload}, ${place}, decode(${piece}, 'base64'))
            ON CONFLICT DO NOTHING`,
        )
      }
      return await write(upload)
    } finally {
      // Else they are removed when an hour is over.
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
  removeLeft(before: number, most: number): Promise<number> {
    const wanted = Math.min(most, maxRemovedPieces)
    return this.#database.transaction(async (sql) => {
      // Whoever would give it to a version at this moment waits, and finds it incomplete.
      const [left] = await sql<{ id: string }[]>`
        SELECT id FROM uploads WHERE account IS NULL AND begun < ${before} ORDER BY begun LIMIT 1 FOR UPDATE`
      if (!left) return 0
      const pieces = await sql`
        DELETE FROM card_pieces WHERE upload = ${left.id} AND place IN
          (SELECT place FROM card_pieces WHERE upload = ${left.id} ORDER BY place LIMIT ${wanted})
        RETURNING place`
      if (pieces.length === wanted) return wanted
      await sql`DELETE FROM uploads WHERE id = ${left.id}`
      return pieces.length + 1
    })
  }

  /** @throws ApiError 503 where the upload has been removed, and as transactions do */
  async #write(write: (sql: Transaction) => Promise<unknown>): Promise<void> {
    try {
      await this.#queue.run(() => this.#database.transaction(write))
    } catch (error) {
      throw isOrphan(error) ? uploadLost() : error
    }
  }
}

/**
 * Gives the pieces of an upload to a version. To be called in the transaction that adds it.
 * @throws ApiError 503 where they are not all there
 */
export async function givePieces(
  sql: Transaction,
  upload: string,
  { account, name, digest }: VersionKey,
  bytes: number,
): Promise<void> {
  // The row first: whoever removes the pieces has it.
  await sql`
    UPDATE uploads SET begun = 0, account = ${account}, name = ${escapeNul(name)}, digest = ${digest}
    WHERE id = ${upload}`
  const [pieces] = await sql<{ count: number }[]>`SELECT count(*) AS count FROM card_pieces WHERE upload = ${upload}`
  if (pieces?.count !== countPieces(bytes)) throw uploadLost()
}
