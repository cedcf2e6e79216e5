import { setImmediate } from 'node:timers/promises'
import { type Actor, commandLine, type Recorder, serviceActor } from '../audit/record.ts'
import { query, queryEach, type Script } from '../storage/scripts.ts'
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
  type SourceBytes,
  type StoredCharacter,
  type StoredVersion,
  type VersionKey,
} from './library/character.ts'
import { assignPieces, isLarge, PieceQueue, removePieces, versionRemoved, withPieces } from './pieces.ts'
import {
  type CharacterUsage,
  checkCharacterLimits,
  dayBegin,
  maxDeletedVersions,
  type PurgePlan,
  type PurgeRow,
  planPurge,
  purgeEntries,
  selectForPurge,
} from './policy.ts'

/** An uploaded character in the database. */
interface CharacterRow {
  readonly name: string
  readonly digest: string
  readonly about: string
  readonly created: number
  readonly updated: number
}

/** The source of a version in the database. `source` is empty if the source is stored in the pieces of an upload. */
interface SourceRow {
  readonly source: Buffer
  readonly upload: string | null
  /** The number of bytes of all pieces. */
  readonly bytes: number | null
}

/** A write of a card, and the conditions for it. */
interface CardWrite {
  readonly account: number
  readonly character: NewCharacter
  readonly limits: CharacterLimits
  readonly by: Actor
  readonly mayReplace: boolean
}

const columns = 'name, digest, about, created, updated'
const keyColumns: Readonly<Record<NameMatch, string>> = { exact: 'name', 'any-case': 'folded' }
const ofVersion = 'account = $1 AND name = $2 AND digest = $3'
const noBytes = Buffer.alloc(0)

/**
 * Uploaded characters in a database. The statements here are for both engines. The subclass of an engine runs them, and has the
 * statements that only this engine needs.
 */
export abstract class DatabaseCharacterStore implements CharacterStore {
  /** The ends of statements that lock rows until the transaction ends, against changes and against removal. */
  protected abstract readonly forUpdate: string
  protected abstract readonly forKeyShare: string
  readonly #queue: PieceQueue

  /** @param maxPieceWrites the most pieces of cards that are written at the same time */
  constructor(maxPieceWrites: number) {
    this.#queue = new PieceQueue(maxPieceWrites)
  }

  /** Runs a script that only reads. If the connection is lost, the script is made and run again. */
  protected abstract read<T>(script: () => Script<T>): Promise<T>
  /** Runs a script in one transaction, which is on disk when the promise resolves. It may be made and run several times. */
  protected abstract write<T>(script: (record: Recorder) => Script<T>): Promise<T>
  /** Runs a script on pieces in one transaction. The transaction is on disk at the latest when the next `write` is. */
  protected abstract writePieces<T>(script: () => Script<T>): Promise<T>
  protected abstract addPiece(upload: string, place: number, piece: Buffer): Script<unknown>
  protected abstract piece(upload: string, place: number): Promise<Buffer | undefined>
  /** Lets no other transaction add characters or bytes to an account until this transaction ends. */
  protected abstract lockUsage(account: number): Script<unknown>
  /** Adds rows to `character_use` for versions that lack one. They count as unused. */
  protected abstract noteUnknown(): Promise<unknown>
  /** A name as the engine can store it. */
  protected abstract toStored(name: string): string
  protected abstract fromStored(name: string): string

  async create(account: number, character: NewCharacter, limits: CharacterLimits = {}, by = commandLine) {
    await this.#store({ account, character, limits, by, mayReplace: false })
  }

  put(account: number, character: NewCharacter, limits: CharacterLimits = {}, by = commandLine): Promise<boolean> {
    return this.#store({ account, character, limits, by, mayReplace: true })
  }

  count(account: number): Promise<CharacterUsage> {
    return this.read(() => usageOf(account))
  }

  find(
    account: number,
    name: string,
    match: NameMatch,
  ): StoredCharacter | undefined | Promise<StoredCharacter | undefined> {
    return this.read(() => this.findScript(account, name, match))
  }

  protected *findScript(account: number, name: string, match: NameMatch): Script<StoredCharacter | undefined> {
    const [row] = yield* query<CharacterRow>(
      `SELECT ${columns} FROM characters WHERE account = $1 AND ${keyColumns[match]} = $2 ORDER BY name LIMIT 1`,
      account,
      this.#keyOf(name, match),
    )
    return row && this.#toCharacter(row)
  }

  async findVersions(account: number, name: string, match: NameMatch, digest: string) {
    const rows = await this.#rows<StoredVersion>(
      `SELECT name, character_versions.digest FROM character_versions JOIN characters USING (account, name)
      WHERE account = $1 AND character_versions.digest BETWEEN $2 AND $3 AND ${keyColumns[match]} = $4 ORDER BY name`,
      ...[account, digest, digest.padEnd(64, 'f'), this.#keyOf(name, match)],
    )
    return rows.map((row) => ({ name: this.fromStored(row.name), digest: row.digest }))
  }

  async size(account: number, name: string, digest: string): Promise<number | undefined> {
    const statement = `SELECT bytes FROM character_use WHERE ${ofVersion}`
    const [row] = await this.#rows<{ bytes: number }>(statement, account, this.toStored(name), digest)
    return row?.bytes
  }

  async source(account: number, name: string, digest: string): Promise<SourceBytes | undefined> {
    const [row] = await this.#rows<SourceRow>(
      `SELECT source, uploads.id AS upload, bytes
      FROM character_versions LEFT JOIN uploads USING (account, name, digest) WHERE ${ofVersion}`,
      ...[account, this.toStored(name), digest],
    )
    if (!row) return undefined
    const { source, upload, bytes } = row
    if (upload === null || bytes === null) return { length: source.length, pieces: [source] }
    return { length: bytes, pieces: this.#pieces(upload) }
  }

  async list(account: number, after: string, limit: number): Promise<readonly StoredCharacter[]> {
    const rows = await this.#rows<CharacterRow>(
      `SELECT ${columns} FROM characters WHERE account = $1 AND name > $2 ORDER BY name LIMIT $3`,
      ...[account, this.toStored(after), limit],
    )
    return rows.map((row) => this.#toCharacter(row))
  }

  async remove(account: number, name: string, by = commandLine): Promise<boolean> {
    for (;;) {
      const isRemoved = await this.write((record) => this.#removePart({ account, name }, by, record))
      if (isRemoved !== undefined) return isRemoved
    }
  }

  async noteUses(versions: readonly VersionKey[], moment: number): Promise<void> {
    const lists = versions.map(({ account, name, digest }) => [account, this.toStored(name), digest] as const)
    // All replicas lock the rows in the same order, so that they cannot deadlock.
    const inOrder = lists.toSorted((one, other) => (one.join('\n') < other.join('\n') ? -1 : 1))
    const values = inOrder.map((key) => [...key, moment, dayBegin(moment)])
    const update = `UPDATE character_use SET used = $4 WHERE ${ofVersion} AND coalesce(used, 0) < $5`
    await this.write(() => queryEach(update, values))
  }

  async purge(after: CharacterKey | null, usedSince: number, by = serviceActor()): Promise<PurgeStep> {
    if (after === null) await this.noteUnknown()
    const { surplus, ...progress } = await this.read(() => this.#plan(after, usedSince))
    if (surplus.length === 0) return { removed: [], ...progress }
    const removed = await this.write((record) => this.#removeSurplus(surplus, usedSince, by, record))
    return { removed, ...progress }
  }

  async page(after: CharacterKey | null, limit: number): Promise<readonly (CharacterKey & StoredCharacter)[]> {
    const { account, name } = after ?? { account: 0, name: '' }
    const rows = await this.#rows<CharacterRow & { account: number }>(
      `SELECT account, ${columns} FROM characters WHERE (account, name) > ($1, $2) ORDER BY account, name LIMIT $3`,
      ...[account, this.toStored(name), limit],
    )
    return rows.map((row) => ({ ...this.#toCharacter(row), account: row.account }))
  }

  async noteAbout({ account, name, digest }: VersionKey, about: CardAbout): Promise<void> {
    const update = `UPDATE characters SET about = $4 WHERE ${ofVersion}`
    await this.write(() => query(update, account, this.toStored(name), digest, JSON.stringify(about)))
  }

  removeLeftovers(before: number, maxRows: number): Promise<number> {
    return this.writePieces(() => removePieces(before, maxRows, this.forUpdate))
  }

  #rows<Row extends object>(...statement: Parameters<typeof query>): Promise<readonly Row[]> {
    return this.read(() => query<Row>(...statement))
  }

  #keyOf(name: string, match: NameMatch): string {
    return this.toStored(match === 'exact' ? name : foldName(name))
  }

  #toCharacter({ name, digest, about, created, updated }: CharacterRow): StoredCharacter {
    const read: CardAbout = JSON.parse(about)
    return { name: this.fromStored(name), digest, created, updated, origin: 'account', about: read }
  }

  /** The pieces of an upload in order, one in each turn of the event loop. */
  async *#pieces(upload: string): AsyncIterable<Buffer> {
    for (let place = 0; ; place++) {
      const piece = await this.piece(upload, place)
      if (!piece) return
      yield piece
      await setImmediate()
    }
  }

  /** Writes a card. A new version that is large is first written in pieces. @returns whether the character is new */
  async #store(card: CardWrite): Promise<boolean> {
    const write = (upload: string | null) => this.write((record) => this.#put(card, upload, record))
    const { source } = card.character
    const inPieces = isLarge(source) && (await this.read(() => this.#isNewVersion(card)))
    if (!inPieces) return await write(null)
    const run = (script: () => Script<unknown>) => this.#queue.run(() => this.writePieces(script))
    return await withPieces(source, run, (upload, place, piece) => this.addPiece(upload, place, piece), write)
  }

  /**
   * Whether a card is a version that is not stored yet. The name and the limits are checked before the first piece, so that an
   * account at its limit writes no pieces.
   */
  *#isNewVersion({ account, character, limits, mayReplace }: CardWrite): Script<boolean> {
    const { name, digest, source } = character
    const before = yield* this.#digestOf(account, this.toStored(name))
    if (before !== null && !mayReplace) throw nameTaken()
    if (before !== null && (yield* hasVersion(account, this.toStored(name), digest))) return false
    const added = { characters: before === null ? 1 : 0, bytes: source.length }
    checkCharacterLimits(limits, yield* usageOf(account), added)
    return true
  }

  /**
   * Checks a card, and makes it the current version of its character.
   * @returns whether the character is new
   * @throws ApiError 409 if the name is taken and `mayReplace` is false, 429 over the limits
   */
  *#put({ account, character, limits, by, mayReplace }: CardWrite, upload: string | null, record: Recorder) {
    const { digest, source } = character
    const [name, about, now] = [this.toStored(character.name), JSON.stringify(character.about), unixSeconds()]
    yield* this.lockUsage(account)
    const usage = yield* usageOf(account)
    const inserted = yield* query(
      `INSERT INTO characters (account, name, folded, digest, about, created, updated)
      VALUES ($1, $2, $3, $4, $5, $6, $6) ON CONFLICT DO NOTHING RETURNING name`,
      ...[account, name, this.#keyOf(character.name, 'any-case'), digest, about, now],
    )
    const isNew = inserted.length > 0
    if (!isNew && !mayReplace) throw nameTaken()
    const isAdded = isNew || !(yield* hasVersion(account, name, digest))
    checkCharacterLimits(limits, usage, { characters: isNew ? 1 : 0, bytes: isAdded ? source.length : 0 })
    const before = isNew ? null : yield* this.#digestOf(account, name, this.forUpdate)
    if (!isNew) {
      const update = 'UPDATE characters SET digest = $3, about = $4, updated = $5 WHERE account = $1 AND name = $2'
      yield* query(update, account, name, digest, about, now)
    }
    yield* this.#addVersion({ account, name, digest }, source, upload)
    const action = isNew ? 'character.created' : 'character.replaced'
    yield* record(by, characterEntry(action, account, character.name, before, digest))
    return isNew
  }

  /**
   * Adds a version, or marks an existing version as the newest.
   * @param upload the upload with the pieces of a large source; null for a small source, and for a version that exists
   * @throws ApiError 503 if a large version was removed since the upload began
   */
  *#addVersion({ account, name, digest }: VersionKey, source: Buffer, upload: string | null): Script<void> {
    const now = unixSeconds()
    if (isLarge(source) && upload === null) {
      // A large source is never written in one statement. The lock keeps a purge from removing the version before the commit.
      if (!(yield* hasVersion(account, name, digest, this.forKeyShare))) throw versionRemoved()
    } else {
      const added = yield* query(
        `INSERT INTO character_versions (account, name, digest, source, created)
        VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING RETURNING name`,
        ...[account, name, digest, upload === null ? source : noBytes, now],
      )
      if (upload !== null && added.length > 0) {
        yield* assignPieces(upload, { account, name, digest }, source.length)
      }
    }
    yield* query(
      `INSERT INTO character_use (account, name, digest, bytes, uploaded)
      SELECT CAST($1 AS BIGINT), CAST($2 AS TEXT), CAST($3 AS TEXT), CAST($4 AS BIGINT),
        CASE WHEN max(uploaded) >= $5 THEN max(uploaded) + 1 ELSE $5 END
      FROM character_use WHERE account = $1 AND name = $2
      ON CONFLICT (account, name, digest) DO UPDATE SET uploaded = excluded.uploaded`,
      ...[account, name, digest, source.length, now],
    )
  }

  /** The digest of the current version of a character; null for an unknown name. */
  *#digestOf(account: number, name: string, lock = ''): Script<string | null> {
    const statement = `SELECT digest FROM characters WHERE account = $1 AND name = $2 ${lock}`
    const [row] = yield* query<{ digest: string }>(statement, account, name)
    return row?.digest ?? null
  }

  /** Removes a character, or its oldest versions if it has many. @returns undefined if the character is not removed yet */
  *#removePart({ account, name }: CharacterKey, by: Actor, record: Recorder): Script<boolean | undefined> {
    const key = [account, this.toStored(name)] as const
    const before = yield* this.#digestOf(...key, this.forUpdate)
    if (before === null) return false
    const oldest = yield* query<{ digest: string }>(
      `SELECT digest FROM character_use WHERE account = $1 AND name = $2 AND digest <> $3
      ORDER BY uploaded, digest LIMIT $4`,
      ...[...key, before, maxDeletedVersions],
    )
    if (oldest.length === maxDeletedVersions) {
      const versions = oldest.map(({ digest }) => [...key, digest])
      yield* queryEach(`DELETE FROM character_versions WHERE ${ofVersion}`, versions)
      for (const entry of purgeEntries(oldest.map(({ digest }) => ({ account, name, digest }))))
        yield* record(by, entry)
      return undefined
    }
    yield* query('DELETE FROM characters WHERE account = $1 AND name = $2', ...key)
    yield* record(by, characterEntry('character.deleted', account, name, before, null))
    return true
  }

  *#plan(begin: CharacterKey | null, usedSince: number): Script<PurgePlan> {
    const { account, name } = begin ?? { account: 0, name: '' }
    const rows = yield* query<PurgeRow>(selectForPurge, account, this.toStored(name))
    const named = rows.map((row) => ({ ...row, name: this.fromStored(row.name) }))
    return planPurge(named, usedSince, begin)
  }

  /** Removes versions, except the ones that were used or made current since the plan. @returns the removed versions */
  *#removeSurplus(surplus: readonly VersionKey[], usedSince: number, by: Actor, record: Recorder) {
    const versions = surplus.map(({ account, name, digest }) => [account, this.toStored(name), digest] as const)
    if (this.forUpdate !== '') {
      // An upload that makes one of these versions current again writes the row of the character, and waits for the lock.
      const lock = `SELECT name FROM characters WHERE account = $1 AND name = $2 ${this.forUpdate}`
      const keys = versions.map(([account, name]) => [account, name])
      yield* queryEach(lock, keys)
    }
    const rows = yield* queryEach<VersionKey>(
      `DELETE FROM character_versions WHERE ${ofVersion}
        AND EXISTS (SELECT 1 FROM character_use WHERE ${ofVersion} AND (used IS NULL OR used < $4))
        AND EXISTS (SELECT 1 FROM characters WHERE account = $1 AND name = $2 AND digest <> $3)
      RETURNING account, name, digest`,
      versions.map((version) => [...version, usedSince]),
    )
    const removed = rows.map((version) => ({ ...version, name: this.fromStored(version.name) }))
    for (const entry of purgeEntries(removed)) yield* record(by, entry)
    return removed
  }
}

/** The number of an account's characters, and the bytes of all their versions. */
function* usageOf(account: number): Script<CharacterUsage> {
  const [usage] = yield* query<CharacterUsage>(
    `SELECT (SELECT count(*) FROM characters WHERE account = $1) AS characters,
      (SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM character_use WHERE account = $1) AS bytes`,
    account,
  )
  return usage ?? { characters: 0, bytes: 0 }
}

/** Whether an account has a version. @param lock locks the version until the transaction ends */
function* hasVersion(account: number, name: string, digest: string, lock = ''): Script<boolean> {
  const statement = `SELECT 1 FROM character_versions WHERE ${ofVersion} ${lock}`
  return (yield* query(statement, account, name, digest)).length > 0
}

/** Removes all characters of an account with their versions. */
export function removeCharacters(account: number): Script<unknown> {
  return query('DELETE FROM characters WHERE account = $1', account)
}
