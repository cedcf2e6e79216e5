import type { Database, Statement } from 'better-sqlite3'
import type { Actor } from '../audit/record.ts'
import { withAuditRecords } from '../audit/sqlite.ts'
import { unixSeconds } from '../time.ts'
import type { CharacterKey, NewCharacter, PurgeStep, VersionKey } from './library/character.ts'
import { isLarge, versionRemoved } from './pieces.ts'
import { type CharacterUsage, dayBegin, type PurgeRow, planPurge, purgeEntries } from './policy.ts'
import { selectForPurge } from './rows.ts'
import type { SqlitePieces } from './sqlite-pieces.ts'

const nothing = Buffer.alloc(0)

/** The versions of uploaded characters in SQLite, with their sizes and uses. Only `purge` opens a transaction. */
export class SqliteVersions {
  readonly #database: Database
  readonly #pieces: SqlitePieces
  readonly #usage: Statement<[number, number], CharacterUsage>
  readonly #exists: Statement<[number, string, string]>
  readonly #size: Statement<[number, string, string], number>
  readonly #insert: Statement<[number, string, string, Buffer, number]>
  readonly #markNewest: Statement<[number, string, string, number, number, number, string]>
  readonly #noteUse: Statement<[number, number, string, string, number]>
  readonly #forPurge: Statement<[number, string], PurgeRow>
  readonly #oldest: Statement<[number, string, string, number], VersionKey>
  readonly #remove: Statement<[number, string, string]>

  constructor(database: Database, pieces: SqlitePieces) {
    this.#database = database
    this.#pieces = pieces
    this.#usage = database.prepare(`
      SELECT (SELECT count(*) FROM characters WHERE account = ?) AS characters,
        (SELECT coalesce(sum(bytes), 0) FROM character_use WHERE account = ?) AS bytes`)
    this.#exists = database.prepare('SELECT 1 FROM character_versions WHERE account = ? AND name = ? AND digest = ?')
    this.#size = database
      .prepare<[number, string, string], number>(
        'SELECT bytes FROM character_use WHERE account = ? AND name = ? AND digest = ?',
      )
      .pluck()
    this.#insert = database.prepare(`
      INSERT INTO character_versions (account, name, digest, source, created)
      VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`)
    this.#markNewest = database.prepare(`
      INSERT INTO character_use (account, name, digest, bytes, uploaded)
      SELECT ?, ?, ?, ?, max(?, 1 + coalesce(max(uploaded), 0)) FROM character_use WHERE account = ? AND name = ?
      ON CONFLICT (account, name, digest) DO UPDATE SET uploaded = excluded.uploaded`)
    this.#noteUse = database.prepare(`
      UPDATE character_use SET used = ? WHERE account = ? AND name = ? AND digest = ? AND coalesce(used, 0) < ?`)
    this.#forPurge = database.prepare(selectForPurge.replace(/\$\d/g, '?'))
    this.#oldest = database.prepare(`
      SELECT account, name, digest FROM character_use
      WHERE account = ? AND name = ? AND digest <> ? ORDER BY uploaded, digest LIMIT ?`)
    this.#remove = database.prepare('DELETE FROM character_versions WHERE account = ? AND name = ? AND digest = ?')
  }

  /** The number of characters and bytes of an account. */
  usageOf(account: number): CharacterUsage {
    return this.#usage.get(account, account) ?? { characters: 0, bytes: 0 }
  }

  has(account: number, { name, digest }: Pick<NewCharacter, 'name' | 'digest'>): boolean {
    return this.#exists.get(account, name, digest) !== undefined
  }

  size(account: number, name: string, digest: string): number | undefined {
    return this.#size.get(account, name, digest)
  }

  /**
   * Adds a version, or marks an existing version as the newest.
   * @param upload the upload with the pieces of a large source; null for a small source, and for a version that exists
   * @throws ApiError 503 if a large version was removed since the upload began
   */
  add(account: number, { name, digest, source }: NewCharacter, upload: string | null): void {
    const now = unixSeconds()
    if (isLarge(source) && upload === null) {
      // A large source is never written in one statement.
      if (!this.has(account, { name, digest })) throw versionRemoved()
    } else {
      const { changes } = this.#insert.run(account, name, digest, upload === null ? source : nothing, now)
      if (upload !== null && changes > 0) this.#pieces.assign(upload, { account, name, digest }, source.length)
    }
    this.#markNewest.run(account, name, digest, source.length, now, account, name)
  }

  /** The oldest versions of a character besides the current one, at most `limit`. */
  oldest(account: number, name: string, current: string, limit: number): readonly VersionKey[] {
    return this.#oldest.all(account, name, current, limit)
  }

  remove(versions: readonly VersionKey[]): void {
    for (const { account, name, digest } of versions) this.#remove.run(account, name, digest)
  }

  noteUse({ account, name, digest }: VersionKey, moment: number): void {
    this.#noteUse.run(moment, account, name, digest, dayBegin(moment))
  }

  /** See `CharacterStore.purge`. If no version has expired, it takes no write lock. */
  purge(after: CharacterKey | null, usedSince: number, by: Actor): PurgeStep {
    const plan = () => planPurge(this.#forPurge.all(after?.account ?? 0, after?.name ?? ''), usedSince, after)
    const seen = plan()
    if (seen.surplus.length === 0) return { removed: [], after: seen.after, isLast: seen.isLast }
    return withAuditRecords(this.#database, (record): PurgeStep => {
      // Another process may have written since the first plan.
      const { surplus, ...progress } = plan()
      this.remove(surplus)
      for (const entry of purgeEntries(surplus)) record(by, entry)
      return { removed: surplus, ...progress }
    })
  }
}
