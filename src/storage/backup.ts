import { copyFileSync, existsSync, realpathSync, renameSync, rmSync, statSync } from 'node:fs'
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
  sidecarSuffixes,
  syncFile,
  syncFolder,
} from './copy.ts'
import { makeWritable, newerVersion, prepareFolder, unwritable, writeProblem } from './data-folder.ts'
import { appliedMigrations, migrations, unknownMigrations } from './migrations.ts'
import { isWindows } from './rights.ts'
import { lockForServing } from './serve-lock.ts'
import { removeDeadCopies } from './unfinished-copies.ts'
import { refuseUnfinishedMove, unfinishedMoveInFile } from './unfinished-move.ts'
import { copyVerified } from './verified-copy.ts'

/** What a restore has done. */
export interface Restored {
  /** What has been written. */
  readonly contents: RowCounts
  /** Whether the next start will bring the schema up to date. */
  readonly isOlder: boolean
  /** The file that the database before is kept in; undefined when there was none. */
  readonly kept: string | undefined
}

/**
 * Copies the database into a file while a service goes on writing, restores the copy to a scratch place at once, and
 * only then lets it have its name: what is there under that name is good.
 * @returns what the backup holds
 * @throws StorageError when there is no database, the file exists, or the copy is not sound
 */
export function backUp(databasePath: string, file: string): RowCounts {
  const target = resolve(file)
  if (!existsSync(databasePath))
    throw new StorageError(`There is no database ${databasePath} to back up. Check DATA_DIR.`)
  if (existsSync(target)) throw new StorageError(`${target} is there already. Name a file that is not.`)
  const database = openSource(databasePath)
  try {
    makeWritable(dirname(target))
    removeDeadCopies(dirname(target))
    return copyVerified(database, target, databasePath)
  } catch (error) {
    if (error instanceof StorageError) throw error
    const problem = writeProblem(error)
    const reason = error instanceof Error ? error.message : String(error)
    const wayOut = problem === undefined ? `${reason}. Name another place.` : `${problem}, or name another place.`
    throw new StorageError(`The backup ${target} cannot be written: ${wayOut}`, { cause: error })
  } finally {
    database.close()
  }
}

/**
 * Puts a backup in the place of the database, which is kept beside it under another name. A kill at any moment leaves
 * the one or the other under the database's name, whole. No service may use the data folder meanwhile.
 * @param force whether a database that is there may be replaced
 * @param note writes into the copy before it is the database: it is there with what was restored, or not at all
 * @throws StorageError when the backup is not sound, a newer version's or the database itself; when a service runs or
 * another program has the database open; or when a database is there
 */
export function restore(
  database: string,
  file: string,
  force: boolean,
  note: (copy: Database.Database) => void = () => {},
): Restored {
  // SQLite keeps its files beside the one that a link leads to.
  const databasePath = existsSync(database) ? realpathSync(database) : database
  if (!statSync(file, { throwIfNoEntry: false })?.isFile()) throw new StorageError(`There is no file ${resolve(file)}.`)
  const part = `${databasePath}.part`
  for (const own of [databasePath, part]) {
    if (isSameFile(own, file))
      throw new StorageError(`${resolve(file)} is ${own}, which a restore writes itself. Name a backup.`)
  }
  const source = openToRead(file)
  try {
    const applied = checkSource(source, file)
    const folder = dirname(databasePath)
    prepareFolder(folder)
    // The service holds the data folder, wherever a link in it leads.
    const lock = lockForServing(dirname(database))
    let old: Old | undefined
    try {
      for (const place of [folder, join(folder, 'backups')]) removeDeadCopies(place)
      removeDatabase(unfinishedOld(databasePath))
      if (existsSync(databasePath) && !force) {
        throw new StorageError(
          `There is a database ${databasePath} already. Add --force to replace it; it is kept beside the new one.`,
        )
      }
      const contents = copyCounted(source, part, file)
      noted(part, note)
      old = setAside(databasePath)
      // Windows renames nothing over a file that is open.
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
  } finally {
    source.close()
  }
}

/**
 * Looks whether a backup can be served from.
 * @returns the migrations that it has seen
 * @throws StorageError when it cannot
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

/** Writes a note into a copy, down to the disk. */
function noted(path: string, note: (copy: Database.Database) => void): void {
  const copy = new Database(path, { fileMustExist: true })
  try {
    note(copy)
  } finally {
    copy.close()
  }
}

/** A database that is about to be replaced, and is kept. */
interface Old {
  readonly kept: string
  /** Lets others open what is there under its name. */
  release(): void
}

/**
 * Keeps what is there under the database's name, and leaves it there as one file with nothing beside it: the log of a
 * database must never meet another one. Nobody else can open it until it is released.
 */
function setAside(path: string): Old | undefined {
  const kept = keptName(path)
  if (!isSound(path)) return setFilesAside(path, kept)
  const database = openAlone(path)
  try {
    const part = unfinishedOld(path)
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

/** Where what is there is copied to before it is kept. */
function unfinishedOld(path: string): string {
  return `${path}.before-restore.part`
}

/** Whether there is a database, and all of it can be read; looking changes nothing of it. */
function isSound(path: string): boolean {
  if (!existsSync(path)) return false
  let database: Database.Database | undefined
  try {
    database = openToRead(path)
    return damageOf(database) === undefined
  } catch (error) {
    if (error instanceof Error && isDamage(error.cause)) return false
    throw error
  } finally {
    database?.close()
  }
}

/**
 * Opens a database, takes its log into it, and keeps all others out.
 * @throws StorageError when another program has it open
 */
function openAlone(path: string): Database.Database {
  const database = new Database(path, { timeout: 5000 })
  try {
    database.pragma('locking_mode = EXCLUSIVE')
    database.exec('BEGIN EXCLUSIVE; COMMIT')
    database.pragma('synchronous = FULL')
    database.pragma('journal_mode = DELETE')
    // Nobody uses it now; whoever has only read may have left it.
    rmSync(`${path}-shm`, { force: true })
    return database
  } catch (error) {
    database.close()
    if (!codeOf(error).startsWith('SQLITE_BUSY')) throw error
    throw new StorageError(`Another program has the database ${path} open. Try again when it has ended.`)
  }
}

/** Keeps the files of a database that cannot be read as they are: there may be something to save in them. */
function setFilesAside(path: string, kept: string): Old | undefined {
  const there = ['-wal', '-journal', ''].filter((beside) => existsSync(path + beside))
  if (there.length === 0) return undefined
  for (const beside of there) {
    copyFileSync(path + beside, kept + beside)
    syncFile(kept + beside)
  }
  syncFolder(dirname(path))
  for (const beside of sidecarSuffixes) rmSync(path + beside, { force: true })
  return { kept: kept + (there.includes('') ? '' : there[0]), release() {} }
}

/** A name with the time in it that nothing has yet. */
function keptName(path: string, at = Date.now()): string {
  const name = `${path}.before-restore-${timeInName(at)}`
  return ['', ...sidecarSuffixes].some((beside) => existsSync(name + beside)) ? keptName(path, at + 1000) : name
}

/** Whether two paths lead to one file, through links too. */
function isSameFile(one: string, other: string): boolean {
  const [a, b] = [one, other].map((path) => statSync(path, { bigint: true, throwIfNoEntry: false }))
  return a !== undefined && b !== undefined && a.dev === b.dev && a.ino === b.ino
}

/** Opens the database that a backup is made of. */
function openSource(path: string): Database.Database {
  // SQLite keeps files beside it, also for reading.
  prepareFolder(dirname(path))
  let database: Database.Database | undefined
  try {
    database = new Database(path)
    database.pragma('busy_timeout = 5000')
    // Only what reads finds out that the file, or what it keeps beside it, cannot be used.
    database.prepare('SELECT 1 FROM sqlite_schema').get()
    return database
  } catch (error) {
    database?.close()
    const reason = error instanceof Error ? error.message : String(error)
    throw (
      unwritable(dirname(path), error) ??
      new StorageError(`The database ${path} cannot be opened: ${reason}.`, { cause: error })
    )
  }
}
