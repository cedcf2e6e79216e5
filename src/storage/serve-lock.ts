import { join } from 'node:path'
import { StorageNotReady } from '../errors.ts'
import { unwritable } from './data-folder.ts'
import { type FileLock, isLocked, lockFile } from './file-lock.ts'

/** The lock of one service on its data folder. A restore and a move take this lock too, so that no service starts meanwhile. */
export type ServeLock = Pick<FileLock, 'release'>

const lockFileName = 'serve.lock'
/** How long a service waits for a process that only checks the lock. */
const lockTimeoutMs = 100

/**
 * Locks a data folder for one service, until the lock is released or the process ends in any way. Commands that may run beside
 * the service do not need the lock.
 * @throws StorageNotReady when another process has the lock
 * @throws StorageError when the folder cannot be written
 */
export function lockForServing(folder: string): ServeLock {
  const lock = tryLock(folder)
  if (lock) return lock
  throw new StorageNotReady(
    `Another service uses the data folder ${folder} already. Stop it, or set DATA_DIR to another.`,
  )
}

function tryLock(folder: string): ServeLock | undefined {
  try {
    return lockFile(join(folder, lockFileName), lockTimeoutMs)
  } catch (error) {
    throw unwritable(folder, error) ?? error
  }
}

/** Whether a service, a restore or a move has the lock on a data folder. */
export function isServed(folder: string): boolean {
  return isLocked(join(folder, lockFileName))
}
