import { closeSync, copyFileSync, existsSync, fsyncSync, openSync, renameSync, rmSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import Database from 'better-sqlite3'
import { makeWritable, prepareFolder, StorageError, unwritable, writeProblem } from './folder.ts'
import { holdForServing } from './serve-lock.ts'

/** What a backup holds: the rows of each table. */
export type Contents = Readonly<Record<string, number>>

/**
 * Copies the database into a file while a service goes on writing, restores the copy to a scratch place at once, and
 * only then lets it have its name: what is there under that name is good.
 * @returns what the backup holds
 * @throws StorageError when there is no database, the file exists, or the copy is not sound
 */
export function backUp(databasePath: string, file: string): Contents {
  const target = resolve(file)
  if (!existsSync(databasePath))
    throw new StorageError(`There is no database ${databasePath} to back up. Check DATA_DIR.`)
  if (existsSync(target)) throw new StorageError(`There is a file ${target} already. Name another.`)
  const copy = `${target}.part`
  const scratch = `${target}.scratch`
  const database = openSource(databasePath)
  try {
    makeWritable(dirname(target))
    rmSync(copy, { force: true })
    // One step in one read transaction: a backup that goes page by page begins anew with every write.
    database.prepare('VACUUM INTO ?').run(copy)
    const contents = soundContents(copy, databasePath)
    copyFileSync(copy, scratch)
    if (JSON.stringify(soundContents(scratch)) !== JSON.stringify(contents)) {
      throw new StorageError('The backup is not what it was when it is restored. Nothing was kept of it; try again.')
    }
    syncFile(copy)
    renameSync(copy, target)
    syncFile(dirname(target))
    return contents
  } catch (error) {
    if (error instanceof StorageError) throw error
    const problem = writeProblem(error) ?? (error instanceof Error ? error.message : String(error))
    throw new StorageError(`The backup ${target} cannot be written: ${problem}, or name another place.`, {
      cause: error,
    })
  } finally {
    database.close()
    for (const leftover of [copy, scratch]) rmSync(leftover, { force: true })
  }
}

/**
 * Puts a backup in the place of the database. No service may use the data folder meanwhile.
 * @param force whether a database that is there may be overwritten
 * @throws StorageError when the backup is not sound, a service runs, or a database is there
 */
export function restore(databasePath: string, file: string, force: boolean): Contents {
  if (!existsSync(file)) throw new StorageError(`There is no file ${resolve(file)}.`)
  const contents = soundContents(file)
  const folder = dirname(databasePath)
  prepareFolder(folder)
  const copy = `${databasePath}.part`
  const lock = holdForServing(folder)
  try {
    if (existsSync(databasePath) && !force) {
      throw new StorageError(`There is a database ${databasePath} already. Add --force to overwrite it.`)
    }
    copyFileSync(file, copy)
    syncFile(copy)
    // What the old database had not yet taken over from its log must not be taken over into the new one.
    for (const leftover of ['-wal', '-shm']) rmSync(databasePath + leftover, { force: true })
    renameSync(copy, databasePath)
    syncFile(folder)
    return contents
  } catch (error) {
    throw unwritable(folder, error) ?? error
  } finally {
    rmSync(copy, { force: true })
    lock.release()
  }
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

/** Opens a database file, checks all of it, and counts its rows. A fault is told by the given name. */
function soundContents(path: string, name = path): Contents {
  let database: Database.Database | undefined
  try {
    database = new Database(path, { readonly: true, fileMustExist: true })
    const found = database.pragma('integrity_check', { simple: true })
    if (found !== 'ok') throw new StorageError(`${name} is damaged: ${String(found)}.`)
    const tables = database
      .prepare<[], string>(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
      )
      .pluck()
      .all()
    if (!tables.includes('migrations')) throw new StorageError(`${name} is no database of Conservatory.`)
    const counts = tables.map((table): [string, number] => {
      const count = database?.prepare<[], number>(`SELECT count(*) FROM "${table}"`).pluck().get() ?? 0
      return [table, count]
    })
    return Object.fromEntries(counts)
  } catch (error) {
    if (error instanceof StorageError) throw error
    throw new StorageError(`${name} is no database that can be read.`, { cause: error })
  } finally {
    database?.close()
  }
}

function syncFile(path: string): void {
  const file = openSync(path, 'r')
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}
