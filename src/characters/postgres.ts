import { runAudited } from '../audit/postgres.ts'
import type { Recorder } from '../audit/record.ts'
import type { PostgresDatabase } from '../storage/postgres/database.ts'
import { isForeignKeyViolation } from '../storage/postgres/failures.ts'
import { runScript } from '../storage/postgres/scripts.ts'
import { escapeNul, unescapeNul } from '../storage/postgres/texts.ts'
import { query, type Script } from '../storage/scripts.ts'
import { uploadLost } from './pieces.ts'
import { DatabaseCharacterStore } from './store.ts'

/** The most pieces that are written in parallel. Each takes a connection, and other requests need connections too. */
const maxPieceWrites = 3

/**
 * Uploaded characters in PostgreSQL. Names are escaped, because texts in PostgreSQL cannot contain U+0000. Pieces are sent and read
 * as base64: the driver would send bytes as hexadecimal text, which makes more garbage
 * (docs/decisions/0030-plain-code-and-workers.md).
 */
export class PostgresCharacterStore extends DatabaseCharacterStore {
  protected readonly forUpdate = 'FOR UPDATE'
  protected readonly forKeyShare = 'FOR KEY SHARE'
  readonly #database: PostgresDatabase

  constructor(database: PostgresDatabase) {
    super(maxPieceWrites)
    this.#database = database
  }

  protected read<T>(script: () => Script<T>): Promise<T> {
    return this.#database.read((sql) => runScript(sql, script()))
  }

  protected write<T>(script: (record: Recorder) => Script<T>): Promise<T> {
    return runAudited(this.#database, script)
  }

  protected async writePieces<T>(script: () => Script<T>): Promise<T> {
    try {
      return await this.#database.transaction((sql) => runScript(sql, script()))
    } catch (error) {
      throw isForeignKeyViolation(error) ? uploadLost() : error
    }
  }

  protected addPiece(upload: string, place: number, piece: Buffer): Script<unknown> {
    // The piece may exist already: the transaction is retried if the result of the first try is unknown.
    const insert = `
      INSERT INTO card_pieces (upload, place, bytes) VALUES ($1, $2, decode($3, 'base64')) ON CONFLICT DO NOTHING`
    return query(insert, upload, place, piece.toString('base64'))
  }

  protected async piece(upload: string, place: number): Promise<Buffer | undefined> {
    const select = "SELECT encode(bytes, 'base64') AS base64 FROM card_pieces WHERE upload = $1 AND place = $2"
    const [row] = await this.read(() => query<{ base64: string }>(select, upload, place))
    return row && Buffer.from(row.base64, 'base64')
  }

  protected lockUsage(account: number): Script<unknown> {
    // The lock has its own table. With a lock on the account's row, writes of plants and of characters would block each other
    // while a commit waits for the standby.
    return query(
      'INSERT INTO upload_locks (account) VALUES ($1) ON CONFLICT (account) DO UPDATE SET account = excluded.account',
      account,
    )
  }

  /** A replica of an older release may have stored such versions. */
  protected noteUnknown(): Promise<unknown> {
    return this.write(() =>
      query(`
        INSERT INTO character_use (account, name, digest, bytes, uploaded)
        SELECT account, name, digest, octet_length(source), created FROM character_versions
        WHERE NOT EXISTS (
          SELECT 1 FROM character_use
          WHERE character_use.account = character_versions.account AND character_use.name = character_versions.name
            AND character_use.digest = character_versions.digest
        ) ON CONFLICT DO NOTHING`),
    )
  }

  protected toStored(name: string): string {
    return escapeNul(name)
  }

  protected fromStored(name: string): string {
    return unescapeNul(name)
  }
}
