import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import type { Database, Statement } from 'better-sqlite3'
import { GroupCommit } from '../storage/group-commit.ts'
import { unixSeconds } from '../time.ts'
import type { VersionKey } from './library/character.ts'
import { countPieces, maxRemovedPieces, PieceQueue, pieceAt, uploadLost } from './pieces.ts'

/** The pieces of large cards in SQLite: each is written in a transaction, and in a turn of the event loop, of its own. */
export class SqlitePieces {
  /** They need not be on disk before the version that has them, whose commit waits for all that came before it. */
  readonly #commit: GroupCommit
  readonly #queue = new PieceQueue(1)
  readonly #begin: Statement<[string, number, number]>
  readonly #add: Statement<[number, Buffer, string]>
  readonly #count: Statement<[string], number>
  readonly #give: Statement<[number, string, string, string]>
  readonly #leave: Statement<[string]>
  readonly #piece: Statement<[string, number], Buffer>
  readonly #left: Statement<[number], string>
  readonly #removePieces: Statement<[string, string, number]>
  readonly #remove: Statement<[string]>

  constructor(database: Database) {
    this.#commit = new GroupCommit(database, 'NORMAL')
    this.#begin = database.prepare('INSERT INTO uploads (id, begun, bytes) VALUES (?, ?, ?)')
    this.#add = database.prepare(
      'INSERT INTO card_pieces (place, bytes, upload) SELECT ?, ?, id FROM uploads WHERE id = ?',
    )
    this.#count = database.prepare<[string], number>('SELECT count(*) FROM card_pieces WHERE upload = ?').pluck()
    this.#give = database.prepare('UPDATE uploads SET begun = 0, account = ?, name = ?, digest = ? WHERE id = ?')
    this.#leave = database.prepare('UPDATE uploads SET begun = 0 WHERE id = ? AND account IS NULL')
    this.#piece = database
      .prepare<[string, number], Buffer>('SELECT bytes FROM card_pieces WHERE upload = ? AND place = ?')
      .pluck()
    this.#left = database
      .prepare<[number], string>('SELECT id FROM uploads WHERE account IS NULL AND begun < ? ORDER BY begun LIMIT 1')
      .pluck()
    this.#removePieces = database.prepare(`
      DELETE FROM card_pieces WHERE upload = ? AND place IN
        (SELECT place FROM card_pieces WHERE upload = ? ORDER BY place LIMIT ?)`)
    this.#remove = database.prepare('DELETE FROM uploads WHERE id = ?')
  }

  /**
   * Writes the pieces of a card, lets `write` give them to a version, and leaves them to be removed where it does not.
   * @throws what it throws; ApiError 507 where the disk is full
   */
  async during<T>(source: Buffer, write: (upload: string) => T): Promise<T> {
    const upload = randomUUID()
    await this.#queue.run(() => this.#commit.run(() => this.#begin.run(upload, unixSeconds(), source.length)))
    try {
      for (let place = 0; place < countPieces(source.length); place++) {
        await this.#queue.run(() => this.#commit.run(() => this.#write(upload, place, pieceAt(source, place))))
      }
      return write(upload)
    } finally {
      // Else they are removed when an hour is over.
      await this.#commit.run(() => this.#leave.run(upload)).catch(() => undefined)
    }
  }

  /** Gives the pieces of an upload to a version. To be called in the transaction that adds it. */
  give(upload: string, { account, name, digest }: VersionKey, bytes: number): void {
    if (this.#count.get(upload) !== countPieces(bytes)) throw uploadLost()
    this.#give.run(account, name, digest, upload)
  }

  /** The pieces of an upload in order, one to a turn of the event loop. */
  async *read(upload: string): AsyncIterable<Buffer> {
    for (let place = 0; ; place++) {
      const piece = this.#piece.get(upload, place)
      if (!piece) return
      yield piece
      await setImmediate()
    }
  }

  /** See `CharacterStore.removeLeftovers`. */
  removeLeft(before: number, most: number): Promise<number> {
    const wanted = Math.min(most, maxRemovedPieces)
    return this.#commit.run(() => {
      const upload = this.#left.get(before)
      if (upload === undefined) return 0
      const removed = this.#removePieces.run(upload, upload, wanted).changes
      return removed === wanted ? removed : removed + this.#remove.run(upload).changes
    })
  }

  #write(upload: string, place: number, piece: Buffer): void {
    if (this.#add.run(place, piece, upload).changes === 0) throw uploadLost()
  }
}
