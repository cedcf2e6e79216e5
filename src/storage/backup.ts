import { existsSync, readdirSync, rmSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import Database from 'better-sqlite3'
import { isDamage, StorageError } from '../errors.ts'
import { timeInName } from '../time.ts'
import { copyVerified, type RowCounts, removeDeadCopies } from './copy.ts'
import {
  makeWritable,
  noDatabase,
  prepareFolder,
  requireDatabase,
  sentenceOf,
  unwritable,
  writeProblem,
} from './data-folder.ts'
import { appliedMigrations } from './migrations.ts'

/** Matches the names of automatic backups. A name has the time (UTC) at which the backup began. */
const backupName = /^conservatory-\d{8}T\d{6}Z\.db$/

/** A backup in a folder of backups. */
export interface FolderBackup {
  readonly file: string
  readonly contents: RowCounts
  /** The paths of the older backups that were removed. */
  readonly removed: readonly string[]
}

/**
 * Backs up the database into a folder, under a name with the time, and then removes the oldest backups with such names.
 * @param keep how many backups stay, the new backup included; by default all
 * @param now Unix milliseconds
 * @throws StorageError when the backup cannot be made. Then no older backup is removed
 */
export function backUpInto(databasePath: string, folder: string, keep?: number, now = Date.now()): FolderBackup {
  const ownName = `conservatory-${timeInName(now)}.db`
  const file = join(folder, ownName)
  const contents = backUp(databasePath, file)
  // The names differ only in the time, so the sorted list begins with the oldest backup. The new backup is not in the list and
  // always stays: if the clock was wrong earlier, an older backup may have a later time in its name.
  const others = readdirSync(folder)
    .filter((name) => backupName.test(name) && name !== ownName)
    .toSorted()
  const surplus = keep === undefined ? [] : others.slice(0, Math.max(0, others.length - (keep - 1)))
  const removed = surplus.map((name) => join(folder, name))
  for (const path of removed) rmSync(path)
  return { file, contents, removed }
}

/**
 * Copies the database into a file. A service may write meanwhile. The copy gets the name of the file only after a test restore to
 * a scratch file has succeeded, so a file under that name is a good backup.
 * @returns the number of rows of each table in the backup
 * @throws StorageError when the database does not exist or cannot be opened, when the file exists or cannot be written, or when
 *   the copy is damaged
 */
export function backUp(databasePath: string, file: string): RowCounts {
  const target = resolve(file)
  requireDatabase(databasePath)
  if (existsSync(target)) throw new StorageError(`${target} exists already. Name a file that does not exist.`)
  const database = openSource(databasePath)
  try {
    makeWritable(dirname(target))
    removeDeadCopies(dirname(target))
    return copyVerified(database, target, databasePath)
  } catch (error) {
    if (error instanceof StorageError) throw error
    if (isDamage(error)) throw new StorageError(sentenceOf(error), { cause: error })
    const problem = writeProblem(error)
    const reason = error instanceof Error ? error.message : String(error)
    const wayOut = problem === undefined ? `${reason}. Name another place.` : `${problem}, or name another place.`
    throw new StorageError(`The backup ${target} cannot be written: ${wayOut}`, { cause: error })
  } finally {
    database.close()
  }
}

function openSource(path: string): Database.Database {
  // SQLite creates files beside a database even to read it.
  prepareFolder(dirname(path))
  let database: Database.Database | undefined
  try {
    database = new Database(path)
    database.pragma('busy_timeout = 5000')
    // Only a read shows that the file, or a file beside it, cannot be used. An empty file has no migrations.
    if (!appliedMigrations(database)) throw noDatabase(path)
    return database
  } catch (error) {
    database?.close()
    if (error instanceof StorageError) throw error
    const reason = error instanceof Error ? error.message : String(error)
    throw (
      unwritable(dirname(path), error) ??
      new StorageError(`The database ${path} cannot be opened: ${reason}.`, { cause: error })
    )
  }
}
