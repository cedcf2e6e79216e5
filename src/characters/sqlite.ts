import type { Database, Statement } from 'better-sqlite3'
import { type OutsideChanges, Remembered } from '../storage/outside-changes.ts'
import { writing } from '../storage/write-error.ts'
import { unixSeconds } from '../time.ts'
import {
  type CharacterStore,
  foldName,
  type NameMatch,
  type NewCharacter,
  nameTaken,
  type StoredCharacter,
  type StoredVersion,
} from './library/character.ts'
import { type CharacterRow, digestsLike, toCharacter } from './rows.ts'

const columns = 'name, digest, about, created, updated'

/** Uploaded characters in SQLite. */
export class SqliteCharacterStore implements CharacterStore {
  readonly #database: Database
  readonly #insert: Statement<[number, string, string, string, string, number, number]>
  readonly #update: Statement<[string, string, number, number, string]>
  readonly #insertVersion: Statement<[number, string, string, Buffer, number]>
  readonly #find: Readonly<Record<NameMatch, Statement<[number, string], CharacterRow>>>
  readonly #versions: Readonly<Record<NameMatch, Statement<[number, string, string, string], StoredVersion>>>
  readonly #source: Statement<[number, string, string], Buffer>
  readonly #list: Statement<[number, string, number], CharacterRow>
  readonly #delete: Statement<[number, string]>

  /** What names lead to: every chat request asks, and most ask for none of these. */
  readonly #remembered: Remembered<StoredCharacter | null>

  constructor(database: Database, changes: OutsideChanges) {
    this.#database = database
    this.#remembered = new Remembered(changes)
    this.#insert = database.prepare(`
      INSERT INTO characters (account, name, folded, digest, about, created, updated)
      VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`)
    this.#update = database.prepare(
      'UPDATE characters SET digest = ?, about = ?, updated = ? WHERE account = ? AND name = ?',
    )
    this.#insertVersion = database.prepare(`
      INSERT INTO character_versions (account, name, digest, source, created)
      VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`)
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

  async create(account: number, character: NewCharacter): Promise<void> {
    this.#remembered.forget()
    const add = this.#database.transaction(() => {
      if (this.#add(account, character)) return
      throw nameTaken()
    })
    writing(() => add.immediate())
  }

  async put(account: number, character: NewCharacter): Promise<boolean> {
    this.#remembered.forget()
    const replace = this.#database.transaction(() => {
      if (this.#add(account, character)) return true
      const { name, digest, about } = character
      const updated = unixSeconds()
      this.#update.run(digest, JSON.stringify(about), updated, account, name)
      this.#insertVersion.run(account, name, digest, character.source, updated)
      return false
    })
    return writing(() => replace.immediate())
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

  async source(account: number, name: string, digest: string): Promise<Buffer | undefined> {
    return this.#source.get(account, name, digest)
  }

  async list(account: number, after: string, limit: number): Promise<readonly StoredCharacter[]> {
    return this.#list.all(account, after, limit).map(toCharacter)
  }

  async remove(account: number, name: string): Promise<boolean> {
    this.#remembered.forget()
    return writing(() => this.#delete.run(account, name).changes > 0)
  }

  #add(account: number, { name, digest, source, about }: NewCharacter): boolean {
    const created = unixSeconds()
    const { changes } = this.#insert.run(account, name, foldName(name), digest, JSON.stringify(about), created, created)
    if (changes === 1) this.#insertVersion.run(account, name, digest, source, created)
    return changes === 1
  }
}

/** Removes all characters of an account with their versions. To be called in a transaction. */
export function removeCharacters(database: Database, account: number): void {
  database.prepare('DELETE FROM characters WHERE account = ?').run(account)
}
