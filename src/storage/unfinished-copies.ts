import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { StorageError } from '../errors.ts'
import { removeDatabase } from './copy.ts'
import { type FileLock, lockFile } from './file-lock.ts'

/** The temporary files of a copy that is being written. */
export interface UnfinishedCopy {
  /** The file that is renamed to the final name of the copy. */
  readonly part: string
  /** The file that the copy is restored to as a test. */
  readonly scratch: string
  /** Removes both files, if they exist, and the lock. */
  end(): void
}

const lockEnding = '.part.lock'

/**
 * Begins a copy with this final name. The process keeps a lock until the copy ends. So temporary files without a lock come from a
 * process that was killed.
 * @throws StorageError when another process writes a copy of this name
 */
export function beginCopy(target: string): UnfinishedCopy {
  const lock = lockFile(target + lockEnding)
  if (!lock) throw new StorageError(`Another program writes ${target} already. Wait for it, or name another file.`)
  return unfinished(target, lock)
}

function unfinished(target: string, lock: FileLock): UnfinishedCopy {
  const [part, scratch] = [`${target}.part`, `${target}.scratch`]
  return {
    part,
    scratch,
    end() {
      for (const file of [part, scratch]) removeDatabase(file)
      lock.remove()
    },
  }
}

/** Removes the temporary files of copies from a folder, if the process that wrote them no longer runs. */
export function removeDeadCopies(folder: string): void {
  if (!existsSync(folder)) return
  for (const name of readdirSync(folder)) {
    if (!name.endsWith(lockEnding)) continue
    const target = join(folder, name.slice(0, -lockEnding.length))
    const lock = lockFile(target + lockEnding)
    if (lock) unfinished(target, lock).end()
  }
}
