import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { timeInName } from '../time.ts'
import { backUp } from './backup.ts'
import type { RowCounts } from './copy.ts'

/** The names of automatic backups, with the time (UTC) at which each was begun. */
const backupName = /^conservatory-\d{8}T\d{6}Z\.db$/

/** A backup in a folder of backups. */
export interface FolderBackup {
  readonly file: string
  readonly contents: RowCounts
  /** Older backups that were removed. */
  readonly removed: readonly string[]
}

/**
 * Backs up the database into a folder, under a name with the time in it, and then removes the oldest backups with such names.
 * @param keep how many backups stay, the new one included; all of them without it
 * @param now Unix milliseconds
 * @throws StorageError as `backUp` does; then no backup is removed
 */
export function backUpInto(databasePath: string, folder: string, keep?: number, now = Date.now()): FolderBackup {
  const file = join(folder, `conservatory-${timeInName(now)}.db`)
  const contents = backUp(databasePath, file)
  // The order of the names is that of their times.
  const names = readdirSync(folder)
    .filter((name) => backupName.test(name))
    .toSorted()
  const surplus = keep === undefined ? [] : names.slice(0, -keep)
  const removed = surplus.map((name) => join(folder, name))
  for (const path of removed) rmSync(path)
  return { file, contents, removed }
}
