import type { Database, Statement } from 'better-sqlite3'
import { type Actor, commandLine, serviceActor } from '../audit/record.ts'
import { type Recorder, withAuditRecords } from '../audit/sqlite.ts'
import type { OutsideChanges } from '../storage/outside-changes.ts'
import { VersionedCache } from '../storage/versioned-cache.ts'
import { withWriteErrors } from '../storage/write-error.ts'
import { inTransaction } from '../storage/write-lock.ts'
import { unixSeconds } from '../time.ts'
import type { CardAbout } from './cards/summary.ts'
import {
  type CharacterKey,
  type CharacterLimits,
  type CharacterStore,
  characterEntry,
  foldName,
  type NameMatch,
  type NewCharacter,
  nameTaken,
  type PurgeStep,
  type StoredCharacter,
  type StoredVersion,
  type VersionKey,
} from './library/character.ts'
import type { SourceBytes } from './library/source-bytes.ts'
import { isLarge } from './pieces.ts'
import { type CharacterUsage, checkCharacterLimits, maxDeletedVersions, purgeEntries } from './policy.ts'
import { type CharacterRow, digestRange, type SourceRow, toCharacter, toSource } from './rows.ts'
import { SqlitePieces } from './sqlite-pieces.ts'
import { SqliteVersions } from './sqlite-versions.ts'

const columns = 'name, digest, about, created, updated'

/** Uploaded characters in SQLite. */
export class SqliteCharacterStore implements CharacterStore {
  readonly #database: Database
  readonly #insert: Statement<[number, string, string, string, string, number, number]>
  readonly #update: Statement<[string, string, number, number, string]>
  readonly #find: Readonly<Record<NameMatch, Statement<[number, string], CharacterRow>>>
  readonly #versions: Readonly<Record<NameMatch, Statement<[number, string, string, string], StoredVersion>>>
  readonly #source: Statement<[number, string, string], SourceRow>
  readonly #list: Statement<[number, string, number], CharacterRow>
  readonly #page: Statement<[number, string, number], CharacterRow & { account: number }>
  readonly #noteAbout: Statement<[string, number, string, string]>
  readonly #delete: Statement<[number, string]>
  readonly #versionTable: SqliteVersions
  readonly #pieces: SqlitePieces

  /** Results of `find`, also negative results: each chat request calls `find`, and usually the character is not an upload. */
  readonly #findCache: VersionedCache<StoredCharacter | null>

  constructor(database: Database, changes: OutsideChanges) {
    this.#database = database
    this.#findCache = new VersionedCache(changes)
    this.#pieces = new SqlitePieces(database)
    this.#versionTable = new SqliteVersions(database, this.#pieces)
    this.#insert = database.prepare(`
      INSERT INTO characters (account, name, folded, digest, about, created, updated)
      VALUES (?, ?, ?, ?, ?, ?, ?)`)
    this.#update = database.prepare(
      'UPDATE characters SET digest = ?, about = ?, updated = ? WHERE account = ? AND name = ?',
    )
    const found = `SELECT ${columns} FROM characters WHERE account = ? AND`
    this.#find = {
      exact: database.prepare(`${found} name = ?`),
      'any-case': database.prepare(`${found} folded = ? ORDER BY name LIMIT 1`),
    }
    const versions = `
      SELECT name, character_versions.digest FROM character_versions JOIN characters USING (account, name)
      WHERE account = ? AND character_versions.digest BETWEEN ? AND ? AND`
    this.#versions = {
      exact: database.prepare(`${versions} name = ?`),
      'any-case': database.prepare(`${versions} folded = ? ORDER BY name`),
    }
    this.#source = database.prepare(`
      SELECT source, uploads.id AS upload, bytes
      FROM character_versions LEFT JOIN uploads USING (account, name, digest)
      WHERE account = ? AND name = ? AND digest = ?`)
    this.#list = database.prepare(`${found} name > ? ORDER BY name LIMIT ?`)
    this.#page = database.prepare(
      `SELECT account, ${columns} FROM characters WHERE (account, name) > (?, ?) ORDER BY account, name LIMIT ?`,
    )
    this.#noteAbout = database.prepare('UPDATE characters SET about = ? WHERE account = ? AND name = ? AND digest = ?')
    this.#delete = database.prepare('DELETE FROM characters WHERE account = ? AND name = ?')
  }

  async create(
    account: number,
    character: NewCharacter,
    limits: CharacterLimits = {},
    by = commandLine,
  ): Promise<void> {
    await this.#write(account, character, limits, by, false)
  }

  async count(account: number): Promise<CharacterUsage> {
    return this.#versionTable.usageOf(account)
  }

  put(account: number, character: NewCharacter, limits: CharacterLimits = {}, by = commandLine): Promise<boolean> {
    return this.#write(account, character, limits, by, true)
  }

  async find(account: number, name: string, match: NameMatch): Promise<StoredCharacter | undefined> {
    const question = `${match} ${account} ${name}`
    const known = this.#findCache.get(question)
    if (known !== undefined) return known ?? undefined
    const row = this.#find[match].get(account, match === 'exact' ? name : foldName(name))
    return this.#findCache.set(question, row ? toCharacter(row) : null) ?? undefined
  }

  async findVersions(
    account: number,
    name: string,
    match: NameMatch,
    digest: string,
  ): Promise<readonly StoredVersion[]> {
    const wanted = match === 'exact' ? name : foldName(name)
    return this.#versions[match].all(account, ...digestRange(digest), wanted)
  }

  async size(account: number, name: string, digest: string): Promise<number | undefined> {
    return this.#versionTable.size(account, name, digest)
  }

  async source(account: number, name: string, digest: string): Promise<SourceBytes | undefined> {
    const row = this.#source.get(account, name, digest)
    return row && toSource(row, (upload) => this.#pieces.read(upload))
  }

  async list(account: number, after: string, limit: number): Promise<readonly StoredCharacter[]> {
    return this.#list.all(account, after, limit).map(toCharacter)
  }

  async remove(account: number, name: string, by = commandLine): Promise<boolean> {
    const removePart = (record: Recorder): boolean | undefined => {
      const before = this.#find.exact.get(account, name)
      if (!before) return false
      const oldest = this.#versionTable.oldest(account, name, before.digest, maxDeletedVersions)
      if (oldest.length === maxDeletedVersions) {
        this.#versionTable.remove(oldest)
        for (const entry of purgeEntries(oldest)) record(by, entry)
        return undefined
      }
      this.#delete.run(account, name)
      record(by, characterEntry('character.deleted', account, name, before.digest, null))
      return true
    }
    for (;;) {
      const isRemoved = await this.#change(removePart)
      if (isRemoved !== undefined) return isRemoved
    }
  }

  async noteUses(versions: readonly VersionKey[], moment: number): Promise<void> {
    const note = () => {
      for (const version of versions) this.#versionTable.noteUse(version, moment)
    }
    withWriteErrors(() => inTransaction(this.#database, note))
  }

  async purge(after: CharacterKey | null, usedSince: number, by = serviceActor()): Promise<PurgeStep> {
    return this.#versionTable.purge(after, usedSince, by)
  }

  async page(after: CharacterKey | null, limit: number): Promise<readonly (CharacterKey & StoredCharacter)[]> {
    const rows = this.#page.all(after?.account ?? 0, after?.name ?? '', limit)
    return rows.map((row) => ({ ...toCharacter(row), account: row.account }))
  }

  async noteAbout({ account, name, digest }: VersionKey, about: CardAbout): Promise<void> {
    this.#findCache.forget()
    withWriteErrors(() => this.#noteAbout.run(JSON.stringify(about), account, name, digest))
  }

  removeLeftovers(before: number, maxRows: number): Promise<number> {
    return this.#pieces.removeLeftovers(before, maxRows)
  }

  /** Checks and writes a card. A new version that is large is first written in pieces. @returns whether the character is new */
  async #write(
    account: number,
    character: NewCharacter,
    limits: CharacterLimits,
    by: Actor,
    mayReplace: boolean,
  ): Promise<boolean> {
    const { name, digest, about, source } = character
    const write = (upload: string | null): boolean =>
      this.#change((record) => {
        const { before } = this.#check(account, character, limits, mayReplace)
        const now = unixSeconds()
        if (before !== null) this.#update.run(digest, JSON.stringify(about), now, account, name)
        else this.#insert.run(account, name, foldName(name), digest, JSON.stringify(about), now, now)
        this.#versionTable.add(account, character, upload)
        const action = before === null ? 'character.created' : 'character.replaced'
        record(by, characterEntry(action, account, name, before, digest))
        return before === null
      })
    // This check comes before the first piece, so that an account at its limit writes no pieces.
    const inPieces = isLarge(source) && this.#check(account, character, limits, mayReplace).isAdded
    return inPieces ? await this.#pieces.withPieces(source, write) : write(null)
  }

  /** Runs a change in one transaction, and empties the cache. */
  #change<T>(change: (record: Recorder) => T): T {
    this.#findCache.forget()
    return withAuditRecords(this.#database, change)
  }

  /**
   * Checks a card before it is written.
   * @returns `before`: the digest of the card that it replaces, or null; `isAdded`: whether this version is not stored yet
   * @throws ApiError 409 if the name is taken and `mayReplace` is false, 429 over the limits
   */
  #check(
    account: number,
    character: NewCharacter,
    limits: CharacterLimits,
    mayReplace: boolean,
  ): { readonly before: string | null; readonly isAdded: boolean } {
    const before = this.#find.exact.get(account, character.name)?.digest ?? null
    if (before !== null && !mayReplace) throw nameTaken()
    const isAdded = before === null || !this.#versionTable.has(account, character)
    const bytes = isAdded ? character.source.length : 0
    checkCharacterLimits(limits, this.#versionTable.usageOf(account), { characters: before === null ? 1 : 0, bytes })
    return { before, isAdded }
  }
}

/** Removes all characters of an account with their versions. Call it in a transaction. */
export function removeCharacters(database: Database, account: number): void {
  database.prepare('DELETE FROM characters WHERE account = ?').run(account)
}
