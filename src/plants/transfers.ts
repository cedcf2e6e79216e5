import { AccessError } from '../access/access.ts'
import type { Actor } from '../audit/record.ts'
import type { ExportSink, PortablePlant } from './portable.ts'

/** A file that is imported into an account, or was. */
export interface ImportKey {
  /** The account's id. */
  readonly account: number
  /** The file's SHA-256, in hexadecimal digits. */
  readonly digest: string
}

/** How far an import has come. */
export interface Import {
  /** How many plants the file has. */
  readonly plants: number
  /** How many of them, from the first one on, are written. */
  readonly done: number
  /** The highest id of the file, whose plant is written before all others; null for a file without plants. */
  readonly highest: number | null
  /** Whether it is being taken back. */
  readonly isUndoing: boolean
}

/** A file with plants of an account that is being deleted. */
export interface DeletionFile {
  readonly path: string
  /** Whether all that it was to have is in it, and on disk. */
  readonly isComplete: boolean
}

/**
 * Moves whole accounts in and out, in transactions that are short each: what does several of them can be killed at any
 * moment, and goes on where it was. For commands: a store of plants in the same process is not told of what this writes.
 */
export interface PlantTransfers {
  /** Milliseconds that a batch is to take at maxKeys while a service runs: SQLite's has all writers wait. */
  readonly maxBatchMs: number
  /** Whether a service runs over this database, as far as that can be seen. */
  isServiceRunning(): Promise<boolean>
  /** Hands the account's own plants over, once that is on record. @throws ApiError 403 when the account is not there any more */
  exportPlants(account: number, sink: ExportSink, by?: Actor): Promise<void>
  /** The same without a record of its own, for a change that has one. */
  copyPlants(account: number, sink: ExportSink): Promise<void>
  /** Whether the account has any plant with an id from the first to the last one of these. */
  hasIdBetween(account: number, first: number, last: number): Promise<boolean>
  /** What the account has at the ids of these plants. */
  held(account: number, plants: readonly PortablePlant[]): Promise<readonly PortablePlant[]>
  findImport(key: ImportKey): Promise<Import | undefined>
  /**
   * Begins an import, once more where it was done before, and adds the plant with the highest id: others, whose ids are
   * counted from there, come behind the file's.
   * @throws TakenId for that one, and ApiError 403 when the account is not there any more
   */
  beginImport(key: ImportKey, plants: number, highest: PortablePlant | undefined, by?: Actor): Promise<void>
  /**
   * Adds the next plants of an import's file, and notes in the same transaction how far it has come.
   * @param at how many plants of the file come before them
   * @param isLast whether none comes after them: only then all is sure to be on disk
   * @throws TakenId, AccessError when the import is not where `at` says, or is not there any more
   */
  addPlants(key: ImportKey, at: number, plants: readonly PortablePlant[], isLast: boolean): Promise<void>
  /** Begins to take an import back, or goes on with that: nothing is added to it any more. @throws AccessError for none */
  beginUndo(key: ImportKey, by?: Actor): Promise<Import>
  /** Forgets an import, of which nothing is left. */
  endUndo(key: ImportKey): Promise<void>
  /** Removes these plants, each where the account has it with the same name and tag; gives how many those were. */
  removePlants(account: number, plants: readonly PortablePlant[]): Promise<number>
  /** Removes idempotency keys of the account, at maxKeys so many; gives how many those were. */
  removeKeys(account: number, maxKeys: number): Promise<number>
  /** The files that deleting the account has made. */
  deletionFiles(account: number): Promise<readonly DeletionFile[]>
  /** Notes a file of the account's deletion, or that it is complete. */
  saveDeletionFile(account: number, file: DeletionFile): Promise<void>
  forgetDeletionFile(account: number, path: string): Promise<void>
}

/** The refusal to go on with an import that something else has changed. */
export function importChanged(): AccessError {
  return new AccessError(
    'Another command works on this import, or the account is deleted: nothing more was imported here. Wait for that one, and run this one again.',
  )
}

/** The refusal to take back what is not there. */
export function noImport(): AccessError {
  return new AccessError('This file is not imported into the account, so there is nothing to take back.')
}
