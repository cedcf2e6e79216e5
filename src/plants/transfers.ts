import { AccessError } from '../access/access.ts'
import { commandLine, type Recorder } from '../audit/record.ts'
import { query, type Script } from '../storage/scripts.ts'
import { unixSeconds } from '../time.ts'
import { plantLine } from './account-file.ts'
import {
  addBelongings,
  type Belonging,
  belongingLine,
  belongingQueries,
  countOfBelongings,
  type ExportQuery,
} from './belongings.ts'
import { columnsOf, insertDetails } from './details.ts'
import { transferEntry } from './policy.ts'
import { type PortablePlant, type PortableRow, portableColumns, portableTables, toPortable } from './rows.ts'
import { nameOf } from './shares.ts'

/** Takes all plants of an account, from one snapshot and in the order of their ids. An error of a method ends the export. */
export interface ExportSink {
  /** Called first, with the number of plants, and of the lines that follow theirs. */
  begin(plants: number, belongings: number): void
  /** Takes some of them as whole lines of an account's file; called any number of times. */
  add(lines: string): void
  /** Called after the last plant. */
  end(): void
}

/** Identifies an import by its account and its file. */
export interface ImportKey {
  /** The account's id. */
  readonly account: number
  /** The file's SHA-256, in hexadecimal digits. */
  readonly digest: string
}

/** The progress of an import. */
export interface Import {
  /** The number of lines in the file, without the header. */
  readonly plants: number
  /** How many lines, from the first one on, are written. */
  readonly done: number
  /** The highest id of the file, whose plant is written first; null for a file without plants. */
  readonly highest: number | null
  /** Whether the import is being undone. */
  readonly isUndoing: boolean
}

/** A file with plants of an account that is being deleted. */
export interface DeletionFile {
  readonly path: string
  /** Whether all plants are in the file, and on disk. */
  readonly isComplete: boolean
}

/** The refusal to import a plant whose id another plant has. Nothing of the plant's batch is written. */
export class TakenId extends AccessError {
  readonly id: number

  constructor(id: number) {
    super(`There is a plant with the id ${id} already.`)
    this.id = id
  }
}

/** Reads the rows of a statement over one snapshot, in portions. */
export type ReadSnapshot = <Row extends object>(query: ExportQuery) => AsyncIterable<readonly Row[]>

const plantsQuery: ExportQuery = {
  text: `SELECT ${portableColumns} FROM ${portableTables} WHERE p.account = $1 ORDER BY p.id`,
  rowsPerRead: 1000,
}
const countQuery: ExportQuery = {
  text: `SELECT (SELECT count(*) FROM plants WHERE account = $1) AS plants, ${countOfBelongings} AS belongings`,
  rowsPerRead: 1,
}

/** The columns of `plants` for a plant of a file. A file of 0.2 has no times, so the plant is new. */
export function insertedOf(plant: PortablePlant) {
  const { id, created = unixSeconds(), updated = created, version = 1 } = plant
  return { id, ...columnsOf(plant), created, updated, version }
}

/** The condition for the row of an import. */
const ofImport = 'account = $1 AND digest = $2'

/**
 * Exports, imports and deletes whole accounts in short transactions: a command can be killed at any moment, and the next run
 * continues (docs/decisions/0026-imports-in-batches.md). Only commands may use these methods: the caches of a `PlantStore` in the
 * same process would miss the writes.
 */
export abstract class PlantTransfers {
  /** The intended time of a batch while a service runs. With SQLite, all other writers wait until the batch has ended. */
  abstract readonly maxBatchMs: number

  /** Whether a service uses this database; true if that cannot be found out. */
  abstract isServiceRunning(): Promise<boolean>

  /** Runs a script that only reads. */
  protected abstract read<T>(script: () => Script<T>): Promise<T>
  /** Runs a script in one transaction, which is on disk when the promise resolves. It may be made and run several times. */
  protected abstract write<T>(script: (record: Recorder) => Script<T>): Promise<T>
  /** Runs a script in one transaction, which a power cut may undo together with all later ones, until the next `write`. */
  protected abstract writeBatch<T>(script: () => Script<T>): Promise<T>
  /** Locks the account, so that no other transaction adds plants to it. @throws ApiError 403 when the account was deleted */
  protected abstract lock(account: number): Script<unknown>
  /** Notes that the plants of the account have changed. */
  protected abstract renewVersion(account: number): Script<unknown>
  /** Opens a snapshot of an account, while `use` reads it: one statement after the other. */
  protected abstract withSnapshot(account: number, use: (read: ReadSnapshot) => Promise<void>): Promise<void>
  protected abstract plantsById(account: number, ids: readonly number[]): Script<readonly PortableRow[]>
  /** Inserts plants, except those whose ids are taken. @returns the ids of the inserted plants */
  protected abstract insert(
    account: number,
    plants: readonly PortablePlant[],
  ): Script<readonly { readonly id: number }[]>
  /** Removes the plants that the account has with the same id, name, tag and version, if the file has one. @returns their ids */
  protected abstract remove(
    account: number,
    plants: readonly PortablePlant[],
  ): Script<readonly { readonly id: number }[]>

  /** Writes an audit record, then exports the account's own plants. @throws ApiError 403 when the account was deleted */
  async exportPlants(account: number, sink: ExportSink, by = commandLine): Promise<void> {
    await this.write(function* (record) {
      yield* record(by, transferEntry('account.exported', account, yield* nameOf(account)))
    })
    await this.copyPlants(account, sink)
  }

  /** Exports the plants without an audit record. It is for the deletion of an account: the deletion has its own audit record. */
  async copyPlants(account: number, sink: ExportSink): Promise<void> {
    await this.withSnapshot(account, async (read) => {
      for await (const [count] of read<{ plants: number; belongings: number }>(countQuery)) {
        sink.begin(count?.plants ?? 0, count?.belongings ?? 0)
      }
      for await (const rows of read<PortableRow>(plantsQuery)) {
        sink.add(rows.map((row) => plantLine(toPortable(row))).join(''))
      }
      for (const query of belongingQueries) {
        for await (const rows of read(query)) sink.add(rows.map(belongingLine).join(''))
      }
    })
    sink.end()
  }

  /** Whether the account has a plant with an id from `first` to `last`. */
  async hasIdBetween(account: number, first: number, last: number): Promise<boolean> {
    const text = 'SELECT id FROM plants WHERE account = $1 AND id BETWEEN $2 AND $3 LIMIT 1'
    return (await this.read(() => query(text, account, first, last))).length > 0
  }

  /** The highest id of the account's plants, at least 0. */
  async highestId(account: number): Promise<number> {
    const text = 'SELECT max(id) AS highest FROM plants WHERE account = $1'
    const [row] = await this.read(() => query<{ highest: number | null }>(text, account))
    return Math.max(0, row?.highest ?? 0)
  }

  /** The account's plants that have the ids of these plants. */
  async findByIds(account: number, plants: readonly PortablePlant[]): Promise<readonly PortablePlant[]> {
    const ids = plants.map(({ id }) => id)
    return (await this.read(() => this.plantsById(account, ids))).map(toPortable)
  }

  findImport(key: ImportKey): Promise<Import | undefined> {
    return this.read(() => readImport(key))
  }

  /**
   * Begins an import, or begins a completed import again, and adds the plant with the highest id. So the service assigns only
   * ids above the ids of the file meanwhile.
   * @throws TakenId when the highest id is taken; ApiError 403 when the account was deleted
   */
  async beginImport(
    { account, digest }: ImportKey,
    plants: number,
    highest: PortablePlant | undefined,
    lines = plants,
    by = commandLine,
  ): Promise<void> {
    const { lock, renewVersion, add } = this.#statements(account)
    await this.write(function* (record) {
      yield* lock()
      const name = yield* nameOf(account)
      yield* query(
        `INSERT INTO imports (account, digest, plants, done, highest, undoing, created) VALUES ($1, $2, $3, 0, $4, 0, $5)
        ON CONFLICT (account, digest)
          DO UPDATE SET plants = excluded.plants, done = 0, highest = excluded.highest, undoing = 0, created = excluded.created`,
        account,
        digest,
        lines,
        highest?.id ?? null,
        unixSeconds(),
      )
      if (highest) yield* add([highest])
      yield* renewVersion()
      yield* record(by, transferEntry('account.imported', account, name, plants))
    })
  }

  /**
   * Adds the next plants of an import's file, and saves the progress in the same transaction.
   * @param at the number of plants in the file before these plants
   * @param isLast whether these plants are the last lines of the file. Before the last plants are written, a power cut may undo
   *   some of the import
   * @throws TakenId when an id is taken; AccessError when the progress of the import is not `at`, or the import is being
   *   undone
   */
  addPlants(key: ImportKey, at: number, plants: readonly PortablePlant[], isLast: boolean): Promise<void> {
    const { renewVersion, add } = this.#statements(key.account)
    return this.#addLines(key, at, plants.length, isLast, function* (highest) {
      yield* add(plants.filter(({ id }) => id !== highest))
      yield* renewVersion()
    })
  }

  /** Adds the next belongings of the plants, as `addPlants` adds plants. @param at the number of lines before these */
  addBelongings(key: ImportKey, at: number, belongings: readonly Belonging[], isLast: boolean): Promise<void> {
    return this.#addLines(key, at, belongings.length, isLast, () => addBelongings(key.account, belongings))
  }

  async #addLines(
    { account, digest }: ImportKey,
    at: number,
    lines: number,
    isLast: boolean,
    add: (highest: number | null) => Script<void>,
  ): Promise<void> {
    const { lock } = this.#statements(account)
    function* script(): Script<void> {
      yield* lock()
      const [saved] = yield* query<{ highest: number | null }>(
        `UPDATE imports SET done = $3 WHERE ${ofImport} AND done = $4 AND undoing = 0 RETURNING highest`,
        account,
        digest,
        at + lines,
        at,
      )
      if (!saved) throw importChanged()
      yield* add(saved.highest)
    }
    await (isLast ? this.write(script) : this.writeBatch(script))
  }

  /** Begins or continues to undo an import of a file with so many plants. Then no run adds more of it. @throws AccessError if there is no such import */
  beginUndo(key: ImportKey, plants: number, by = commandLine): Promise<Import> {
    const { account, digest } = key
    return this.write(function* (record) {
      const begun = yield* query(
        `UPDATE imports SET undoing = 1 WHERE ${ofImport} AND undoing = 0 RETURNING digest`,
        account,
        digest,
      )
      const found = yield* readImport(key)
      if (!found) throw new AccessError('This file is not imported into the account, so there is nothing to undo.')
      if (begun.length > 0) {
        yield* record(by, transferEntry('account.import_undone', account, yield* nameOf(account), plants))
      }
      return found
    })
  }

  /** Removes the record of an import whose plants are removed. */
  async endUndo({ account, digest }: ImportKey): Promise<void> {
    await this.write(() => query(`DELETE FROM imports WHERE ${ofImport}`, account, digest))
  }

  /** Removes the plants that the account has with the same id, name, tag and version. @returns how many plants were removed */
  removePlants(account: number, plants: readonly PortablePlant[]): Promise<number> {
    const { remove, renewVersion } = this.#statements(account)
    return this.writeBatch(function* () {
      const { length } = yield* remove(plants)
      yield* renewVersion()
      return length
    })
  }

  /** Removes at most `maxKeys` idempotency keys, or kept replies, of the account. @returns how many were removed */
  removeKeys(account: number, maxKeys: number): Promise<number> {
    const remove = (table: 'idempotency_keys' | 'kept_replies') =>
      query(
        `DELETE FROM ${table} WHERE account = $1 AND key IN
          (SELECT key FROM ${table} WHERE account = $1 LIMIT $2) RETURNING 1`,
        account,
        maxKeys,
      )
    return this.writeBatch(function* () {
      return (yield* remove('idempotency_keys')).length || (yield* remove('kept_replies')).length
    })
  }

  /** The files that the deletion of the account has written. */
  async deletionFiles(account: number): Promise<readonly DeletionFile[]> {
    const text = 'SELECT file, complete FROM deletions WHERE account = $1 ORDER BY file'
    const rows = await this.read(() => query<{ file: string; complete: number }>(text, account))
    return rows.map(({ file, complete }) => ({ path: file, isComplete: complete === 1 }))
  }

  /** Records a file of the account's deletion, or updates whether the file is complete. */
  async saveDeletionFile(account: number, { path, isComplete }: DeletionFile): Promise<void> {
    const text = `
      INSERT INTO deletions (account, file, complete) VALUES ($1, $2, $3)
      ON CONFLICT (account, file) DO UPDATE SET complete = excluded.complete`
    await this.write(() => query(text, account, path, Number(isComplete)))
  }

  async forgetDeletionFile(account: number, path: string): Promise<void> {
    await this.write(() => query('DELETE FROM deletions WHERE account = $1 AND file = $2', account, path))
  }

  /** The statements of the engine, for an account. */
  #statements(account: number) {
    const insert = (plants: readonly PortablePlant[]) => this.insert(account, plants)
    return {
      lock: () => this.lock(account),
      renewVersion: () => this.renewVersion(account),
      remove: (plants: readonly PortablePlant[]) => this.remove(account, plants),
      /** Adds plants. @throws TakenId for the first plant whose id is taken; then the transaction must be rolled back */
      *add(plants: readonly PortablePlant[]): Script<void> {
        const added = new Set((yield* insert(plants)).map(({ id }) => id))
        const taken = plants.find(({ id }) => !added.has(id))
        if (taken) throw new TakenId(taken.id)
        yield* insertDetails(account, plants)
      },
    }
  }
}

/** Removes an account's idempotency keys and grants. @returns false if the account has plants; then nothing is removed */
export function* removeRest(account: number): Script<boolean> {
  const plants = yield* query('SELECT id FROM plants WHERE account = $1 LIMIT 1', account)
  if (plants.length > 0) return false
  yield* query('DELETE FROM idempotency_keys WHERE account = $1', account)
  yield* query('DELETE FROM grants WHERE owner = $1 OR grantee = $1', account)
  return true
}

function* readImport({ account, digest }: ImportKey): Script<Import | undefined> {
  const [row] = yield* query<Omit<Import, 'isUndoing'> & { readonly undoing: number }>(
    `SELECT plants, done, highest, undoing FROM imports WHERE ${ofImport}`,
    account,
    digest,
  )
  if (!row) return undefined
  const { undoing, ...found } = row
  return { ...found, isUndoing: undoing === 1 }
}

/** The refusal to continue an import that another command has changed. */
function importChanged(): AccessError {
  return new AccessError(
    'Another command is working on this import, or the account was deleted. This command imported nothing more. Wait for the other command, then run this one again.',
  )
}
