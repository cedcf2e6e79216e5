import type { Database, Statement } from 'better-sqlite3'
import { commandLine, serviceActor } from '../audit/record.ts'
import { recording } from '../audit/sqlite.ts'
import { type OutsideChanges, Remembered } from '../storage/outside-changes.ts'
import { writing } from '../storage/write-error.ts'
import { inTransaction } from '../storage/write-lock.ts'
import { unixSeconds } from '../time.ts'
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
import { checkCharacterLimits, type Kept } from './policy.ts'
import { type CharacterRow, digestsLike, toCharacter } from './rows.ts'
import { SqliteVersions } from './sqlite-versions.ts'

const columns = 'name, digest, about, created, updated'

/** Uploaded characters in SQLite. */
export class SqliteCharacterStore implements CharacterStore {
  readonly #database: Database
  readonly #insert: Statement<[number, string, string, string, string, number, number]>
  readonly #update: Statement<[string, string, number, number, string]>
  readonly #find: Readonly<Record<NameMatch, Statement<[number, string], CharacterRow>>>
  readonly #versions: Readonly<Record<NameMatch, Statement<[number, string, string, string], StoredVersion>>>
  readonly #source: Statement<[number, string, string], Buffer>
  readonly #list: Statement<[number, string, number], CharacterRow>
  readonly #delete: Statement<[number, string]>
  readonly #kept: SqliteVersions

  /** What names lead to: every chat request asks, and most ask for none of these. */
  readonly #remembered: Remembered<StoredCharacter | null>

  constructor(database: Database, changes: OutsideChanges) {
    this.#database = database
    this.#remembered = new Remembered(changes)
    this.#kept = new SqliteVersions(database)
    this.#insert = database.prepare(`
      INSERT INTO characters (account, name, folded, digest, about, created, updated)
      VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`)
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
    this.#source = database
      .prepare<[number, string, string], Buffer>(
        'SELECT source FROM character_versions WHERE account = ? AND name = ? AND digest = ?',
      )
      .pluck()
    this.#list = database.prepare(`${found} name > ? ORDER BY name LIMIT ?`)
    this.#delete = database.prepare('DELETE FROM characters WHERE account = ? AND name = ?')
  }

  async create(
    account: number,
    character: NewCharacter,
    ceilings: CharacterCeilings = {},
    by = commandLine,
  ): Promise<void> {
    this.#remembered.forget()
    recording(this.#database, (record) => {
      if (!this.#add(account, character, ceilings)) throw nameTaken()
      record(by, characterEntry('character.created', account, character.name, null, character.digest))
    })
  }

  async count(account: number): Promise<Kept> {
    return this.#kept.of(account)
  }

  async put(
    account: number,
    character: NewCharacter,
    ceilings: CharacterCeilings = {},
    by = commandLine,
  ): Promise<boolean> {
    this.#remembered.forget()
    return recording(this.#database, (record) => {
      const { name, digest, about, source } = character
      const before = this.#find.exact.get(account, name)?.digest ?? null
      const isNew = this.#add(account, character, ceilings)
      if (!isNew) {
        const bytes = this.#kept.has(account, character) ? 0 : source.length
        if (bytes > 0) checkCharacterLimits(ceilings, this.#kept.of(account), { characters: 0, bytes })
        this.#update.run(digest, JSON.stringify(about), unixSeconds(), account, name)
        this.#kept.add(account, character)
      }
      const action = isNew ? 'character.created' : 'character.replaced'
      record(by, characterEntry(action, account, name, before, digest))
      return isNew
    })
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

  async source(account: number, name: string, digest: string): Promise<Buffer | undefined> {
    return this.#source.get(account, name, digest)
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

  /** Adds a character that is new; tells whether it was. */
  #add(account: number, character: NewCharacter, ceilings: CharacterCeilings): boolean {
    const { name, digest, source, about } = character
    const kept = this.#kept.of(account)
    const created = unixSeconds()
    const { changes } = this.#insert.run(account, name, foldName(name), digest, JSON.stringify(about), created, created)
    if (changes === 0) return false
    checkCharacterLimits(ceilings, kept, { characters: 1, bytes: source.length })
    this.#kept.add(account, character)
    return true
  }
}

/** Removes all characters of an account with their versions. To be called in a transaction. */
export function removeCharacters(database: Database, account: number): void {
  database.prepare('DELETE FROM characters WHERE account = ?').run(account)
}
