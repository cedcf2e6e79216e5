import { basename } from 'node:path'
import type { Database } from 'better-sqlite3'
import { inTransaction } from '../storage/write-lock.ts'
import { type AuditEntry, commandLine, type Facts } from './record.ts'
import { writeRecord } from './sqlite.ts'

/** What is put on record of the whole database, or of what belongs to no account. */
export function wholeEntry(
  action: 'database.restored' | 'database.migrated' | 'models.reloaded',
  before: Facts | null,
  after: Facts | null,
): AuditEntry {
  return { action, target: null, account: null, before, after }
}

/** Marks, as SQLite's `user_version`, a restored database that had no table for the record of that. */
const restoredWithoutRecord = 1

/**
 * Puts on record that a backup is restored, in the database that is about to be served; one from before there was an audit
 * trail is marked, and gets its record when it is next opened.
 * @param file the backup
 */
export function noteRestore(database: Database, file: string): void {
  const hasTrail = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'audit_records'").get() !== undefined
  if (hasTrail) writeRecord(database, commandLine, wholeEntry('database.restored', null, { backup: basename(file) }))
  else database.pragma(`user_version = ${restoredWithoutRecord}`)
}

/** Writes the record that a restored database has no table for before. */
export function settleRestore(database: Database): void {
  if (database.pragma('user_version', { simple: true }) !== restoredWithoutRecord) return
  inTransaction(database, () => {
    if (database.pragma('user_version', { simple: true }) !== restoredWithoutRecord) return
    writeRecord(database, commandLine, wholeEntry('database.restored', null, null))
    database.pragma('user_version = 0')
  })
}
