import { renameSync } from 'node:fs'
import { dirname } from 'node:path'
import type Database from 'better-sqlite3'
import { StorageError } from '../errors.ts'
import { copyCounted, openToRead, type RowCounts, syncFolder } from './copy.ts'
import { beginCopy } from './unfinished-copies.ts'

/**
 * Copies a database into a temporary file, restores the copy to a scratch file as a test, and then renames the copy to the
 * target. An older target is replaced. So the file under the target's name is complete at any moment.
 * @param name the name of the database in messages
 * @returns the number of rows of each table of the copy
 * @throws StorageError when the copy is damaged, or another process writes the same target; the error of SQLite or the system
 *   when the copy cannot be written
 */
export function copyVerified(database: Database.Database, target: string, name: string): RowCounts {
  const copy = beginCopy(target)
  try {
    const contents = copyCounted(database, copy.part, name)
    const restored = openToRead(copy.part, name)
    try {
      if (JSON.stringify(copyCounted(restored, copy.scratch, name)) !== JSON.stringify(contents)) {
        throw new StorageError('The restored backup differs from the copy, so the copy was removed. Try again.')
      }
    } finally {
      restored.close()
    }
    renameSync(copy.part, target)
    syncFolder(dirname(target))
    return contents
  } finally {
    copy.end()
  }
}
