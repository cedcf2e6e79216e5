import { copyFileSync, existsSync, renameSync, rmSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import Database from 'better-sqlite3'
import { codeOf, isDamage, StorageError } from '../errors.ts'
import { timeInName } from '../time.ts'
import {
  copyCounted,
  damageOf,
  openToRead,
  type RowCounts,
  removeDatabase,
  removeDeadCopies,
  sidecarSuffixes,
  syncFile,
  syncFolder,
  whileOpen,
} from './copy.ts'
import { newerVersion, prepareFolder, unwritable } from './data-folder.ts'
import { lockForServing } from './file-lock.ts'
import { appliedMigrations, migrations, unknownMigrations } from './migrations.ts'
import { isWindows, realPathOf } from './rights.ts'
import { refuseUnfinishedMove, unfinishedMoveInFile } from './unfinished-move.ts'

/** The result of a restore. */
export interface Restored {
  /** The rows of the restored database. */
  readonly contents: RowCounts
  /** Whether the backup has an older schema, which the next start migrates. */
  readonly isOlder: boolean
  /** The file with the replaced database; undefined when there was no database. */
  readonly kept: string | undefined
}

/**
 * Replaces the database by a backup, and keeps the old database under another name in the same folder. If the process is killed,
 * the file under the database's name is either the complete old database or the complete new database. No service may use the
 * data folder during a restore.
 * @param force whether to replace a database that exists
 * @param note writes rows into the copy before the rename, so that these rows appear together with the restored rows
 * @throws StorageError when a service cannot use the backup (no such file, damaged, from a newer version, an unfinished move);
 * when the backup is the database itself; when a service runs or another program has the database open; when a database exists
 * and `force` is false; or when the folder cannot be written
 */
export function restore(
  database: string,
  file: string,
  force: boolean,
  note: (copy: Database.Database) => void = () => {},
): Restored {
  const databasePath = realPathOf(database)
  if (!statSync(file, { throwIfNoEntry: false })?.isFile()) throw new StorageError(`There is no file ${resolve(file)}.`)
  const part = `${databasePath}.part`
  for (const own of [databasePath, part]) {
    if (isSameFile(own, file))
      throw new StorageError(`${resolve(file)} is ${own}, which a restore writes itself. Name a backup.`)
  }
  return whileOpen(openToRead(file), (source) => {
    const applied = checkSource(source, file)
    const folder = dirname(databasePath)
    prepareFolder(folder)
    // If the database is a symbolic link, `folder` is the folder of the link's target. A service locks the folder of the link.
    const lock = lockForServing(dirname(database))
    let old: Old | undefined
    try {
      for (const place of [folder, join(folder, 'backups')]) removeDeadCopies(place)
      removeDatabase(oldCopyPart(databasePath))
      if (existsSync(databasePath) && !force) {
        throw new StorageError(
          `There is a database ${databasePath} already. Add --force to replace it. The old database is kept in the same folder.`,
        )
      }
      const contents = copyCounted(source, part, file)
      whileOpen(new Database(part, { fileMustExist: true }), note)
      old = keepOld(databasePath)
      // Windows cannot rename a file over an open file.
      if (isWindows) old?.release()
      renameSync(part, databasePath)
      syncFolder(folder)
      return { contents, isOlder: migrations.some(({ name }) => !applied.includes(name)), kept: old?.kept }
    } catch (error) {
      throw unwritable(folder, error) ?? error
    } finally {
      old?.release()
      removeDatabase(part)
      lock.release()
    }
  })
}

/**
 * Checks that a service can use a backup.
 * @returns the names of the migrations in the backup
 * @throws StorageError when a service cannot use the backup
 */
function checkSource(source: Database.Database, file: string): readonly string[] {
  const fault = damageOf(source)
  if (fault !== undefined) throw new StorageError(`${file} is damaged: ${fault}.`)
  const applied = appliedMigrations(source)
  if (!applied) throw new StorageError(`${file} is no database of Conservatory.`)
  const unknown = unknownMigrations(applied)
  if (unknown.length > 0) throw newerVersion(file, unknown, 'Restore it with that version.')
  refuseUnfinishedMove(unfinishedMoveInFile(source), file)
  return applied
}

/** The old database during a restore. */
interface Old {
  /** The file with the copy of the old database. */
  readonly kept: string
  /** Lets other programs open the file under the database's name. */
  release(): void
}

/**
 * Copies the old database to a new name. The file under the database's name stays, but the log of that file is removed, because
 * SQLite would apply it to the restored database. If the old database is intact, no other program can open it until `release`.
 * @returns undefined when there is no old database
 */
function keepOld(path: string): Old | undefined {
  const kept = unusedName(path)
  if (!isIntact(path)) return keepOldFiles(path, kept)
  const database = openExclusively(path)
  try {
    const part = oldCopyPart(path)
    try {
      copyCounted(database, part, path)
      renameSync(part, kept)
      syncFolder(dirname(path))
    } finally {
      removeDatabase(part)
    }
  } catch (error) {
    database.close()
    throw error
  }
  return { kept, release: () => void database.close() }
}

function oldCopyPart(path: string): string {
  return `${path}.before-restore.part`
}

/** Whether a database exists and is not damaged. The check does not change its files. */
function isIntact(path: string): boolean {
  if (!existsSync(path)) return false
  try {
    return whileOpen(openToRead(path), damageOf) === undefined
  } catch (error) {
    if (error instanceof Error && isDamage(error.cause)) return false
    throw error
  }
}

/**
 * Opens a database exclusively, writes its log into the file, and removes the log.
 * @throws StorageError when another program has the database open
 */
function openExclusively(path: string): Database.Database {
  const database = new Database(path, { timeout: 5000 })
  try {
    database.pragma('locking_mode = EXCLUSIVE')
    database.exec('BEGIN EXCLUSIVE; COMMIT')
    database.pragma('synchronous = FULL')
    database.pragma('journal_mode = DELETE')
    // A program that only reads may have left this file behind. No other program can use it now.
    rmSync(`${path}-shm`, { force: true })
    return database
  } catch (error) {
    database.close()
    if (!codeOf(error).startsWith('SQLITE_BUSY')) throw error
    throw new StorageError(`Another program has the database ${path} open. Try again when it has ended.`)
  }
}

/**
 * Copies the files of a damaged database as they are, because data may be recovered from them. Then removes the log and the
 * journal beside the database.
 * @returns undefined when there are no files
 */
function keepOldFiles(path: string, kept: string): Old | undefined {
  const suffixes = ['-wal', '-journal', ''].filter((suffix) => existsSync(path + suffix))
  if (suffixes.length === 0) return undefined
  for (const suffix of suffixes) {
    copyFileSync(path + suffix, kept + suffix)
    syncFile(kept + suffix)
  }
  syncFolder(dirname(path))
  for (const suffix of sidecarSuffixes) rmSync(path + suffix, { force: true })
  return { kept: kept + (suffixes.includes('') ? '' : suffixes[0]), release() {} }
}

function unusedName(path: string, at = Date.now()): string {
  const name = `${path}.before-restore-${timeInName(at)}`
  return ['', ...sidecarSuffixes].some((suffix) => existsSync(name + suffix)) ? unusedName(path, at + 1000) : name
}

/** Whether two paths lead to the same file, directly or through links. */
function isSameFile(one: string, other: string): boolean {
  const [a, b] = [one, other].map((path) => statSync(path, { bigint: true, throwIfNoEntry: false }))
  return a !== undefined && b !== undefined && a.dev === b.dev && a.ino === b.ino
}
