import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import type { Database, Statement } from 'better-sqlite3'
import { GroupCommit } from '../storage/group-commit.ts'
import { unixSeconds } from '../time.ts'
import type { VersionKey } from './library/character.ts'
import { countPieces, maxRemovedPieces, PieceQueue, pieceAt, uploadLost } from './pieces.ts'

/** The pieces of large cards in SQLite. Each piece has its own transaction and its own turn of the event loop. */
export class SqlitePieces {
  /** Pieces need no fsync (`NORMAL`), because the commit of the version syncs all earlier writes too. */
  readonly #commit: GroupCommit
  readonly #queue = new PieceQueue(1)
  readonly #insertUpload: Statement<[string, number, number]>
  readonly #add: Statement<[number, Buffer, string]>
  readonly #count: Statement<[string], number>
  readonly #assign: Statement<[number, string, string, string]>
  readonly #abandon: Statement<[string]>
  readonly #piece: Statement<[string, number], Buffer>
  readonly #oldestAbandoned: Statement<[number], string>
  readonly #removePieces: Statement<[string, string, number]>
  readonly #remove: Statement<[string]>

  constructor(database: Database) {
    this.#commit = new GroupCommit(database, 'NORMAL')
    this.#insertUpload = database.prepare('INSERT INTO uploads (id, begun, bytes) VALUES (?, ?, ?)')
    this.#add = database.prepare(
      'INSERT INTO card_pieces (place, bytes, upload) SELECT ?, ?, id FROM uploads WHERE id = ?',
    )
    this.#count = database.prepare<[string], number>('SELECT count(*) FROM card_pieces WHERE upload = ?').pluck()
    this.#assign = database.prepare('UPDATE uploads SET begun = 0, account = ?, name = ?, digest = ? WHERE id = ?')
    this.#abandon = database.prepare('UPDATE uploads SET begun = 0 WHERE id = ? AND account IS NULL')
    this.#piece = database
      .prepare<[string, number], Buffer>('SELECT bytes FROM card_pieces WHERE upload = ? AND place = ?')
      .pluck()
    this.#oldestAbandoned = database
      .prepare<[number], string>('SELECT id FROM uploads WHERE account IS NULL AND begun < ? ORDER BY begun LIMIT 1')
      .pluck()
    this.#removePieces = database.prepare(`
      DELETE FROM card_pieces WHERE upload = ? AND place IN
        (SELECT place FROM card_pieces WHERE upload = ? ORDER BY place LIMIT ?)`)
    this.#remove = database.prepare('DELETE FROM uploads WHERE id = ?')
  }

  /**
   * Writes the pieces of a card, then calls `write`, which assigns them to a version. Pieces that stay unassigned are marked as
   * abandoned.
   * @throws the errors of `write`, ApiError 507 if the disk is full, and 503 if the pieces were removed meanwhile
   */
  async withPieces<T>(source: Buffer, write: (upload: string) => T): Promise<T> {
    const upload = randomUUID()
    await this.#queue.run(() => this.#commit.run(() => this.#insertUpload.run(upload, unixSeconds(), source.length)))
    try {
      for (let place = 0; place < countPieces(source.length); place++) {
        await this.#queue.run(() => this.#commit.run(() => this.#write(upload, place, pieceAt(source, place))))
      }
      return write(upload)
    } finally {
      // If this fails, unassigned pieces are removed after an hour.
      await this.#commit.run(() => this.#abandon.run(upload)).catch(() => undefined)
    }
  }

  /**
   * Assigns the pieces of an upload to a version. Call it in the transaction that adds the version.
   * @throws ApiError 503 if pieces are missing
   */
  assign(upload: string, { account, name, digest }: VersionKey, bytes: number): void {
    if (this.#count.get(upload) !== countPieces(bytes)) throw uploadLost()
    this.#assign.run(account, name, digest, upload)
  }

  /** The pieces of an upload in order, one in each turn of the event loop. */
  async *read(upload: string): AsyncIterable<Buffer> {
    for (let place = 0; ; place++) {
      const piece = this.#piece.get(upload, place)
      if (!piece) return
      yield piece
      await setImmediate()
    }
  }

  /** See `CharacterStore.removeLeftovers`. */
  removeLeftovers(before: number, maxRows: number): Promise<number> {
    const maxPieces = Math.min(maxRows, maxRemovedPieces)
    return this.#commit.run(() => {
      const upload = this.#oldestAbandoned.get(before)
      if (upload === undefined) return 0
      const removed = this.#removePieces.run(upload, upload, maxPieces).changes
      return removed === maxPieces ? removed : removed + this.#remove.run(upload).changes
    })
  }

  #write(upload: string, place: number, piece: Buffer): void {
    if (this.#add.run(place, piece, upload).changes === 0) throw uploadLost()
  }
}
