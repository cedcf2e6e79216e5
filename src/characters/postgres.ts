import { withAuditRecords } from '../audit/postgres.ts'
import { commandLine, serviceActor } from '../audit/record.ts'
import type { PostgresDatabase, Transaction } from '../storage/postgres/database.ts'
import { escapeNul, unescapeNul } from '../storage/postgres/texts.ts'
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
import { PostgresPieces } from './postgres-pieces.ts'
import {
  addVersion,
  hasVersion,
  lockUsage,
  noteUses,
  oldestVersions,
  purge,
  removeVersions,
  usageOf,
} from './postgres-versions.ts'
import { type CharacterRow, digestRange, type SourceRow, toCharacter, toSource } from './rows.ts'

/** Uploaded characters in PostgreSQL. Names are escaped, because texts in PostgreSQL cannot contain U+0000. */
export class PostgresCharacterStore implements CharacterStore {
  readonly #database: PostgresDatabase
  readonly #pieces: PostgresPieces

  constructor(database: PostgresDatabase) {
    this.#database = database
    this.#pieces = new PostgresPieces(database)
  }

  count(account: number): Promise<CharacterUsage> {
    return this.#database.read((sql) => usageOf(sql, account))
  }

  async create(
    account: number,
    character: NewCharacter,
    limits: CharacterLimits = {},
    by = commandLine,
  ): Promise<void> {
    const write = (upload: string | null) =>
      withAuditRecords(this.#database, async (sql, record) => {
        if (!(await add(sql, account, character, limits, upload))) throw nameTaken()
        await record(by, characterEntry('character.created', account, character.name, null, character.digest))
      })
    await this.#inPieces(account, character, limits, false, write)
  }

  put(account: number, character: NewCharacter, limits: CharacterLimits = {}, by = commandLine): Promise<boolean> {
    const write = (upload: string | null) =>
      withAuditRecords(this.#database, async (sql, record) => {
        const { digest, about, source } = character
        if (await add(sql, account, character, limits, upload)) {
          await record(by, characterEntry('character.created', account, character.name, null, digest))
          return true
        }
        const name = escapeNul(character.name)
        const bytes = (await hasVersion(sql, account, character)) ? 0 : source.length
        if (bytes > 0) checkCharacterLimits(limits, await lockUsage(sql, account), { characters: 0, bytes })
        const [before] = await sql<{ digest: string }[]>`
          SELECT digest FROM characters WHERE account = ${account} AND name = ${name} FOR UPDATE`
        await sql`
          UPDATE characters SET digest = ${digest}, about = ${JSON.stringify(about)}, updated = ${unixSeconds()}
          WHERE account = ${account} AND name = ${name}`
        await addVersion(sql, account, character, upload)
        await record(by, characterEntry('character.replaced', account, character.name, before?.digest ?? null, digest))
        return false
      })
    return this.#inPieces(account, character, limits, true, write)
  }

  async find(account: number, name: string, match: NameMatch): Promise<StoredCharacter | undefined> {
    const [row] = await this.#database.read((sql) =>
      match === 'exact'
        ? sql<
            CharacterRow[]
          >`SELECT name, digest, about, created, updated FROM characters WHERE account = ${account} AND name = ${escapeNul(name)}`
        : sql<CharacterRow[]>`
            SELECT name, digest, about, created, updated FROM characters WHERE account = ${account} AND folded = ${escapeNul(foldName(name))}
            ORDER BY name LIMIT 1`,
    )
    return row && toNamed(row)
  }

  async findVersions(
    account: number,
    name: string,
    match: NameMatch,
    digest: string,
  ): Promise<readonly StoredVersion[]> {
    const [first, last] = digestRange(digest)
    const rows = await this.#database.read(
      (sql) => sql<StoredVersion[]>`
        SELECT characters.name, character_versions.digest
        FROM character_versions JOIN characters
          ON characters.account = character_versions.account AND characters.name = character_versions.name
        WHERE characters.account = ${account} AND character_versions.digest BETWEEN ${first} AND ${last}
          AND ${match === 'exact' ? sql`characters.name = ${escapeNul(name)}` : sql`folded = ${escapeNul(foldName(name))}`}
        ORDER BY characters.name`,
    )
    return rows.map((row) => ({ name: unescapeNul(row.name), digest: row.digest }))
  }

  async size(account: number, name: string, digest: string): Promise<number | undefined> {
    const [row] = await this.#database.read(
      (sql) => sql<{ bytes: number }[]>`
        SELECT bytes FROM character_use
        WHERE account = ${account} AND name = ${escapeNul(name)} AND digest = ${digest}`,
    )
    return row?.bytes
  }

  async source(account: number, name: string, digest: string): Promise<SourceBytes | undefined> {
    const [row] = await this.#database.read(
      (sql) => sql<SourceRow[]>`
        SELECT source, uploads.id AS upload, bytes
        FROM character_versions LEFT JOIN uploads USING (account, name, digest)
        WHERE account = ${account} AND name = ${escapeNul(name)} AND digest = ${digest}`,
    )
    return row && toSource(row, (upload) => this.#pieces.read(upload))
  }

  async list(account: number, after: string, limit: number): Promise<readonly StoredCharacter[]> {
    const rows = await this.#database.read(
      (sql) => sql<CharacterRow[]>`
        SELECT name, digest, about, created, updated FROM characters WHERE account = ${account} AND name > ${after === '' ? '' : escapeNul(after)}
        ORDER BY name LIMIT ${limit}`,
    )
    return rows.map(toNamed)
  }

  async remove(account: number, name: string, by = commandLine): Promise<boolean> {
    const removePart = () =>
      withAuditRecords(this.#database, async (sql, record): Promise<boolean | undefined> => {
        const [before] = await sql<{ digest: string }[]>`
          SELECT digest FROM characters WHERE account = ${account} AND name = ${escapeNul(name)} FOR UPDATE`
        if (!before) return false
        const oldest = await oldestVersions(sql, { account, name, digest: before.digest }, maxDeletedVersions)
        if (oldest.length === maxDeletedVersions) {
          await removeVersions(sql, oldest)
          for (const entry of purgeEntries(oldest)) await record(by, entry)
          return undefined
        }
        await sql`DELETE FROM characters WHERE account = ${account} AND name = ${escapeNul(name)}`
        await record(by, characterEntry('character.deleted', account, name, before.digest, null))
        return true
      })
    for (;;) {
      const isRemoved = await removePart()
      if (isRemoved !== undefined) return isRemoved
    }
  }

  async noteUses(versions: readonly VersionKey[], moment: number): Promise<void> {
    await this.#database.transaction(async (sql) => {
      await noteUses(sql, versions, moment)
      return true
    })
  }

  purge(after: CharacterKey | null, usedSince: number, by = serviceActor()): Promise<PurgeStep> {
    return purge(this.#database, after, usedSince, by)
  }

  async page(after: CharacterKey | null, limit: number): Promise<readonly (CharacterKey & StoredCharacter)[]> {
    const { account, name } = after ?? { account: 0, name: '' }
    const rows = await this.#database.read(
      (sql) => sql<(CharacterRow & { account: number })[]>`
        SELECT account, name, digest, about, created, updated FROM characters
        WHERE (account, name) > (${account}, ${name === '' ? '' : escapeNul(name)}) ORDER BY account, name LIMIT ${limit}`,
    )
    return rows.map((row) => ({ ...toNamed(row), account: Number(row.account) }))
  }

  async noteAbout({ account, name, digest }: VersionKey, about: CardAbout): Promise<void> {
    await this.#database.transaction(async (sql) => {
      await sql`
        UPDATE characters SET about = ${JSON.stringify(about)}
        WHERE account = ${account} AND name = ${escapeNul(name)} AND digest = ${digest}`
      return true
    })
  }

  removeLeftovers(before: number, maxRows: number): Promise<number> {
    return this.#pieces.removeLeftovers(before, maxRows)
  }

  /**
   * Calls `write` for a card. For a large card, it first checks the name and the account's limits, and then writes the pieces. A
   * version that is stored already needs no pieces.
   */
  async #inPieces<T>(
    account: number,
    character: NewCharacter,
    limits: CharacterLimits,
    mayReplace: boolean,
    write: (upload: string | null) => Promise<T>,
  ): Promise<T> {
    const { name, source } = character
    if (!isLarge(source)) return await write(null)
    const isAdded = await this.#database.read(async (sql) => {
      const [before] = await sql`SELECT 1 FROM characters WHERE account = ${account} AND name = ${escapeNul(name)}`
      if (before && !mayReplace) throw nameTaken()
      if (before && (await hasVersion(sql, account, character))) return false
      const added = { characters: before ? 0 : 1, bytes: source.length }
      checkCharacterLimits(limits, await usageOf(sql, account), added)
      return true
    })
    return await (isAdded ? this.#pieces.withPieces(source, write) : write(null))
  }
}

/** Removes all characters of an account with their versions. Call it in the transaction that deletes the account. */
export async function removeCharacters(sql: Transaction, account: number): Promise<void> {
  await sql`DELETE FROM characters WHERE account = ${account}`
}

/** Adds a character. @returns false if the account has a character of this name already @throws ApiError 429 beyond the limits */
async function add(
  sql: Transaction,
  account: number,
  character: NewCharacter,
  limits: CharacterLimits,
  upload: string | null,
): Promise<boolean> {
  const { digest, source, about } = character
  const name = escapeNul(character.name)
  const usage = await lockUsage(sql, account)
  const created = unixSeconds()
  const inserted = await sql`
    INSERT INTO characters (account, name, folded, digest, about, created, updated)
    VALUES (${account}, ${name}, ${escapeNul(foldName(character.name))}, ${digest}, ${JSON.stringify(about)},
      ${created}, ${created})
    ON CONFLICT DO NOTHING RETURNING name`
  if (inserted.length === 0) return false
  checkCharacterLimits(limits, usage, { characters: 1, bytes: source.length })
  await addVersion(sql, account, character, upload)
  return true
}

function toNamed(row: CharacterRow): StoredCharacter {
  return { ...toCharacter(row), name: unescapeNul(row.name) }
}
