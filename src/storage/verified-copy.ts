import { renameSync } from 'node:fs'
import { dirname } from 'node:path'
import type Database from 'better-sqlite3'
import { StorageError } from '../errors.ts'
import { copyCounted, openToRead, type RowCounts, syncFolder } from './copy.ts'
import { beginCopy } from './unfinished-copies.ts'

/**
 * Copies a database into a file, restores the copy to a scratch place at once, and only then lets it have its name, and
 * so replaces a file of that name. The file under that name is good at any moment.
 * @param name what the database is called where it is at fault
 * @returns what the copy holds
 * @throws StorageError when the copy is not sound; what SQLite or the system says when it cannot be written
 */
export function copyVerified(database: Database.Database, target: string, name: string): RowCounts {
  const copy = beginCopy(target)
  try {
    const contents = copyCounted(database, copy.part, name)
    const restored = openToRead(copy.part, name)
    try {
      if (JSON.stringify(copyCounted(restored, copy.scratch, name)) !== JSON.stringify(contents)) {
        throw new StorageError('The backup is not what it was when it is restored. Nothing was kept of it; try again.')
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
