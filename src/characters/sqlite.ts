import type { Database, Statement } from 'better-sqlite3'
import { type Actor, commandLine, serviceActor } from '../audit/record.ts'
import { recording } from '../audit/sqlite.ts'
import { type OutsideChanges, Remembered } from '../storage/outside-changes.ts'
import { writing } from '../storage/write-error.ts'
import { inTransaction } from '../storage/write-lock.ts'
import { unixSeconds } from '../time.ts'
import type { CardAbout } from './cards/summary.ts'
import {
  type CharacterCeilings,
  type CharacterKey,
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
import { pieceBytes } from './pieces.ts'
import { checkCharacterLimits, type Kept } from './policy.ts'
import { type CharacterRow, digestsLike, type SourceRow, toCharacter, toSource } from './rows.ts'
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
  readonly #kept: SqliteVersions
  readonly #pieces: SqlitePieces

  /** What names lead to: every chat request asks, and most ask for none of these. */
  readonly #remembered: Remembered<StoredCharacter | null>

  constructor(database: Database, changes: OutsideChanges) {
    this.#database = database
    this.#remembered = new Remembered(changes)
    this.#pieces = new SqlitePieces(database)
    this.#kept = new SqliteVersions(database, this.#pieces)
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
    ceilings: CharacterCeilings = {},
    by = commandLine,
  ): Promise<void> {
    await this.#write(account, character, ceilings, by, false)
  }

  async count(account: number): Promise<Kept> {
    return this.#kept.of(account)
  }

  put(account: number, character: NewCharacter, ceilings: CharacterCeilings = {}, by = commandLine): Promise<boolean> {
    return this.#write(account, character, ceilings, by, true)
  }

  async find(account: number, name: string, match: NameMatch): Promise<StoredCharacter | undefined> {
    const question = `${match} ${account} ${name}`
    const known = this.#remembered.get(question)
    if (known !== undefined) return known ?? undefined
    const row = this.#find[match].get(account, match === 'exact' ? name : foldName(name))
    return this.#remembered.set(question, row ? toCharacter(row) : null) ?? undefined
  }

  async findVersions(
    account: number,
    name: string,
    match: NameMatch,
    digest: string,
  ): Promise<readonly StoredVersion[]> {
    const wanted = match === 'exact' ? name : foldName(name)
    return this.#versions[match].all(account, ...digestsLike(digest), wanted)
  }

  async size(account: number, name: string, digest: string): Promise<number | undefined> {
    return this.#kept.size(account, name, digest)
  }

  async source(account: number, name: string, digest: string): Promise<SourceBytes | undefined> {
    const row = this.#source.get(account, name, digest)
    return row && toSource(row, (upload) => this.#pieces.read(upload))
  }

  async list(account: number, after: string, limit: number): Promise<readonly StoredCharacter[]> {
    return this.#list.all(account, after, limit).map(toCharacter)
  }

  async remove(account: number, name: string, by = commandLine): Promise<boolean> {
    this.#remembered.forget()
    return recording(this.#database, (record) => {
      const before = this.#find.exact.get(account, name)
      if (!before) return false
      this.#delete.run(account, name)
      record(by, characterEntry('character.deleted', account, name, before.digest, null))
      return true
    })
  }

  async noteUses(versions: readonly VersionKey[], moment: number): Promise<void> {
    const note = () => {
      for (const version of versions) this.#kept.noteUse(version, moment)
    }
    writing(() => inTransaction(this.#database, note))
  }

  async purge(after: CharacterKey | null, usedSince: number, by = serviceActor()): Promise<PurgeStep> {
    return this.#kept.purge(after, usedSince, by)
  }

  async page(after: CharacterKey | null, limit: number): Promise<readonly (CharacterKey & StoredCharacter)[]> {
    const rows = this.#page.all(after?.account ?? 0, after?.name ?? '', limit)
    return rows.map((row) => ({ ...toCharacter(row), account: row.account }))
  }

  async noteAbout({ account, name, digest }: VersionKey, about: CardAbout): Promise<void> {
    this.#remembered.forget()
    writing(() => this.#noteAbout.run(JSON.stringify(about), account, name, digest))
  }

  removeLeftovers(before: number, most: number): Promise<number> {
    return this.#pieces.removeLeft(before, most)
  }

  /** Writes a card, a large one in pieces first; tells whether its character is new. */
  async #write(
    account: number,
    character: NewCharacter,
    ceilings: CharacterCeilings,
    by: Actor,
    mayReplace: boolean,
  ): Promise<boolean> {
    const { name, digest, about, source } = character
    const write = (upload: string | null): boolean => {
      this.#remembered.forget()
      return recording(this.#database, (record) => {
        const { before } = this.#check(account, character, ceilings, mayReplace)
        const now = unixSeconds()
        if (before !== null) this.#update.run(digest, JSON.stringify(about), now, account, name)
        else this.#insert.run(account, name, foldName(name), digest, JSON.stringify(about), now, now)
        this.#kept.add(account, character, upload)
        const action = before === null ? 'character.created' : 'character.replaced'
        record(by, characterEntry(action, account, name, before, digest))
        return before === null
      })
    }
    // An account at its limit writes no piece.
    const isLarge = source.length > pieceBytes && this.#check(account, character, ceilings, mayReplace).isAdded
    return isLarge ? await this.#pieces.during(source, write) : write(null)
  }

  /**
   * What a card comes to: the digest that it replaces, null where it does not, and whether its bytes are added.
   * @throws ApiError 409 where the name is taken and may not be, 429 beyond the ceilings
   */
  #check(
    account: number,
    character: NewCharacter,
    ceilings: CharacterCeilings,
    mayReplace: boolean,
  ): { readonly before: string | null; readonly isAdded: boolean } {
    const before = this.#find.exact.get(account, character.name)?.digest ?? null
    if (before !== null && !mayReplace) throw nameTaken()
    const isAdded = before === null || !this.#kept.has(account, character)
    const bytes = isAdded ? character.source.length : 0
    checkCharacterLimits(ceilings, this.#kept.of(account), { characters: before === null ? 1 : 0, bytes })
    return { before, isAdded }
  }
}

/** Removes all characters of an account with their versions. To be called in a transaction. */
export function removeCharacters(database: Database, account: number): void {
  database.prepare('DELETE FROM characters WHERE account = ?').run(account)
}
