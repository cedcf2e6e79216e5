import { accessSync, constants, existsSync, mkdirSync, opendirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { codeOf, isDamage, StorageError } from '../errors.ts'
import { printableLines } from '../print.ts'
import { damageSentence } from './damage.ts'
import { userId } from './rights.ts'
import { isNoRoom } from './write-error.ts'

/** The error for a database that a newer version has migrated. @param wayOut what to do, as a sentence */
export function newerVersion(database: string, unknown: readonly string[], wayOut: string): StorageError {
  return new StorageError(
    `${database} was written by a newer version of Conservatory (it has ${unknown.join(', ')}). ${wayOut}`,
  )
}

/** The error for a database that does not exist, and that only the service, a restore or a move makes. */
export function noDatabase(path: string): StorageError {
  return new StorageError(
    `There is no database in the folder ${dirname(path)}. Set DATA_DIR to the data folder of the service, or start the service, which makes a database.`,
  )
}

/** @throws StorageError when there is no file under the path of a database, or this user may not look there */
export function requireDatabase(path: string): void {
  try {
    if (statSync(path, { throwIfNoEntry: false })) return
  } catch (error) {
    throw unwritable(dirname(path), error) ?? noDatabase(path)
  }
  throw noDatabase(path)
}

/**
 * The middle of a sentence: why a file cannot be written, and what to do. Undefined for errors that are not about disk space or
 * rights.
 */
export function writeProblem(error: unknown): string | undefined {
  const code = codeOf(error)
  if (isNoRoom(code)) return 'its disk is full. Make room'
  if (code === 'EROFS') return 'its file system is read-only. Mount it for writing'
  if (!/^(?:EACCES|EPERM|SQLITE_(?:PERM|READONLY|CANTOPEN))/.test(code)) return undefined
  const user = userId === undefined ? 'this user' : `this user (uid ${userId})`
  return `${user} may not write there. Make this user the owner of the folder and its files (chown -R)`
}

/** The error for a data folder that cannot be written; undefined for errors that are not about disk space or rights. */
export function unwritable(folder: string, error: unknown): StorageError | undefined {
  const problem = writeProblem(error)
  if (problem === undefined) return undefined
  return new StorageError(
    `The data folder ${folder} cannot be written: ${problem}, or set DATA_DIR to another folder.`,
    {
      cause: error,
    },
  )
}

/** A failure as text for the operator. */
export function sentenceOf(error: unknown): string {
  return printableLines(ownSentenceOf(error))
}

function ownSentenceOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error instanceof StorageError) return error.message
  if (isDamage(error)) return `The database said: ${error.message}. ${damageSentence}`
  const problem = writeProblem(error)
  if (problem === undefined) return error.message
  const [path] = ['dest', 'path'].flatMap((name) => (name in error ? String(Reflect.get(error, name)) : []))
  return `${path ?? 'The data folder'} cannot be written: ${problem}, and try again.`
}

/**
 * Creates the data folder when it does not exist, and checks that it can be written.
 * @throws StorageError when the folder cannot be created or written
 */
export function prepareFolder(path: string): void {
  try {
    makeWritable(path)
  } catch (error) {
    const reason = unwritable(path, error)
    if (reason) throw reason
    throw new StorageError(`The data folder ${path} cannot be written. Set DATA_DIR to a folder that can.`, {
      cause: error,
    })
  }
}

/**
 * Creates a folder when it does not exist, and checks that it can be written.
 * @throws the system's error when the folder cannot be created or written
 */
export function makeWritable(path: string): void {
  makeFolder(path)
  // Opening fails when the path is a file.
  opendirSync(path).closeSync()
  accessSync(path, constants.W_OK)
}

/** Like `mkdir -p`. Node's option `recursive` would never return under /proc, where the system always answers ENOENT. */
function makeFolder(path: string): void {
  if (existsSync(path)) return
  const parent = dirname(path)
  if (parent !== path) makeFolder(parent)
  try {
    mkdirSync(path)
  } catch (error) {
    // Another process may have created the folder first.
    if (!existsSync(path)) throw error
  }
}
