import { AccessError } from '../access/access.ts'
import type { Actor } from '../audit/record.ts'
import type { ExportSink, PortablePlant } from './portable.ts'

/** Identifies an import by its account and its file. */
export interface ImportKey {
  /** The account's id. */
  readonly account: number
  /** The file's SHA-256, in hexadecimal digits. */
  readonly digest: string
}

/** The progress of an import. */
export interface Import {
  /** The number of plants in the file. */
  readonly plants: number
  /** How many plants, from the first one on, are written. */
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

/**
 * Exports, imports and deletes whole accounts in short transactions: a command can be killed at any moment, and the next run
 * continues. Only commands may use these methods: the caches of a `PlantStore` in the same process would miss the writes.
 */
export interface PlantTransfers {
  /** The intended time of a batch while a service runs. With SQLite, all other writers wait until the batch has ended. */
  readonly maxBatchMs: number
  /** Whether a service uses this database; true if that cannot be found out. */
  isServiceRunning(): Promise<boolean>
  /** Writes an audit record, then exports the account's own plants. @throws ApiError 403 when the account was deleted */
  exportPlants(account: number, sink: ExportSink, by?: Actor): Promise<void>
  /** Exports the plants without an audit record. It is for the deletion of an account: the deletion has its own audit record. */
  copyPlants(account: number, sink: ExportSink): Promise<void>
  /** Whether the account has a plant with an id from `first` to `last`. */
  hasIdBetween(account: number, first: number, last: number): Promise<boolean>
  /** The account's plants that have the ids of these plants. */
  findByIds(account: number, plants: readonly PortablePlant[]): Promise<readonly PortablePlant[]>
  findImport(key: ImportKey): Promise<Import | undefined>
  /**
   * Begins an import, or begins a completed import again, and adds the plant with the highest id. So the service assigns only
   * ids above the ids of the file meanwhile.
   * @throws TakenId when the highest id is taken; ApiError 403 when the account was deleted
   */
  beginImport(key: ImportKey, plants: number, highest: PortablePlant | undefined, by?: Actor): Promise<void>
  /**
   * Adds the next plants of an import's file, and saves the progress in the same transaction.
   * @param at the number of plants in the file before these plants
   * @param isLast whether these plants are the last of the file. Before the last plants are written, a power cut may undo
   *   some of the import
   * @throws TakenId when an id is taken; AccessError when the progress of the import is not `at`, or the import is being
   *   undone
   */
  addPlants(key: ImportKey, at: number, plants: readonly PortablePlant[], isLast: boolean): Promise<void>
  /** Begins or continues to undo an import. Then no run adds more plants. @throws AccessError if there is no such import */
  beginUndo(key: ImportKey, by?: Actor): Promise<Import>
  /** Removes the record of an import whose plants are removed. */
  endUndo(key: ImportKey): Promise<void>
  /** Removes the plants that the account has with the same id, name and tag. @returns how many plants were removed */
  removePlants(account: number, plants: readonly PortablePlant[]): Promise<number>
  /** Removes at most `maxKeys` idempotency keys of the account. @returns how many keys were removed */
  removeKeys(account: number, maxKeys: number): Promise<number>
  /** The files that the deletion of the account has written. */
  deletionFiles(account: number): Promise<readonly DeletionFile[]>
  /** Records a file of the account's deletion, or updates whether the file is complete. */
  saveDeletionFile(account: number, file: DeletionFile): Promise<void>
  forgetDeletionFile(account: number, path: string): Promise<void>
}

/** The refusal to continue an import that another command has changed. */
export function importChanged(): AccessError {
  return new AccessError(
    'Another command is working on this import, or the account was deleted. This command imported nothing more. Wait for the other command, then run this one again.',
  )
}

/** The refusal to undo an import that does not exist. */
export function noImport(): AccessError {
  return new AccessError('This file is not imported into the account, so there is nothing to undo.')
}
