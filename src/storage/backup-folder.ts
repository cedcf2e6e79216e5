import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { timeInName } from '../time.ts'
import { backUp } from './backup.ts'
import type { RowCounts } from './copy.ts'

/** Matches the names of automatic backups. A name has the time (UTC) at which the backup began. */
const backupName = /^conservatory-\d{8}T\d{6}Z\.db$/

/** A backup in a folder of backups. */
export interface FolderBackup {
  readonly file: string
  readonly contents: RowCounts
  /** The paths of the older backups that were removed. */
  readonly removed: readonly string[]
}

/**
 * Backs up the database into a folder, under a name with the time, and then removes the oldest backups with such names.
 * @param keep how many backups stay, the new backup included; by default all
 * @param now Unix milliseconds
 * @throws StorageError when the backup cannot be made. Then no older backup is removed
 */
export function backUpInto(databasePath: string, folder: string, keep?: number, now = Date.now()): FolderBackup {
  const ownName = `conservatory-${timeInName(now)}.db`
  const file = join(folder, ownName)
  const contents = backUp(databasePath, file)
  // The names differ only in the time, so the sorted list begins with the oldest backup. The new backup is not in the list and
  // always stays: if the clock was wrong earlier, an older backup may have a later time in its name.
  const others = readdirSync(folder)
    .filter((name) => backupName.test(name) && name !== ownName)
    .toSorted()
  const surplus = keep === undefined ? [] : others.slice(0, Math.max(0, others.length - (keep - 1)))
  const removed = surplus.map((name) => join(folder, name))
  for (const path of removed) rmSync(path)
  return { file, contents, removed }
}
