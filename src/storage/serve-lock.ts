import { join } from 'node:path'
import { StorageNotReady } from '../errors.ts'
import { unwritable } from './data-folder.ts'
import { type FileLock, isLocked, lockFile } from './file-lock.ts'

/** A data folder held by one service. */
export type ServeLock = Pick<FileLock, 'release'>

/** The file that a service locks in its data folder, and milliseconds that it waits for what only looks whether it is locked. */
const lockFileName = 'serve.lock'
const patienceMs = 100

/**
 * Holds a data folder for one service, until it is released or the process ends in any way. Commands that work beside the
 * service do not ask for it.
 * @throws StorageNotReady when another service holds the folder
 * @throws StorageError when it cannot be written
 */
export function lockForServing(folder: string): ServeLock {
  const lock = held(folder)
  if (lock) return lock
  throw new StorageNotReady(
    `Another service uses the data folder ${folder} already. Stop it, or set DATA_DIR to another.`,
  )
}

function held(folder: string): ServeLock | undefined {
  try {
    return lockFile(join(folder, lockFileName), patienceMs)
  } catch (error) {
    throw unwritable(folder, error) ?? error
  }
}

/** Tells whether a service holds a data folder. */
export function isServed(folder: string): boolean {
  return isLocked(join(folder, lockFileName))
}
