import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { StorageError } from '../errors.ts'
import { removeDatabase } from './copy.ts'
import { type FileLock, lockFile } from './file-lock.ts'

/** Files of a copy that is being made. */
export interface UnfinishedCopy {
  /** What becomes the copy. */
  readonly part: string
  /** What the copy is restored to, for a proof. */
  readonly scratch: string
  /** Removes what is left of both. */
  end(): void
}

const lockEnding = '.part.lock'

/**
 * Begins a copy that is to have this name in the end. Until it ends, its process holds a lock: a kill leaves the files without.
 * @throws StorageError where another process makes a copy of this name
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

/** Removes from a folder what is left of copies whose process no longer runs. */
export function removeDeadCopies(folder: string): void {
  if (!existsSync(folder)) return
  for (const name of readdirSync(folder)) {
    if (!name.endsWith(lockEnding)) continue
    const target = join(folder, name.slice(0, -lockEnding.length))
    const lock = lockFile(target + lockEnding)
    if (lock) unfinished(target, lock).end()
  }
}
