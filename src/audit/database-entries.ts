import { basename } from 'node:path'
import type { Database } from 'better-sqlite3'
import { inTransaction } from '../storage/write-lock.ts'
import { type AuditEntry, commandLine, type Facts } from './record.ts'
import { writeRecord } from './sqlite.ts'

/** An audit entry about the whole database, or about another subject that belongs to no account. */
export function globalEntry(
  action: 'database.restored' | 'database.migrated' | 'models.reloaded',
  before: Facts | null,
  after: Facts | null,
): AuditEntry {
  return { action, target: null, account: null, before, after }
}

/** The `user_version` of a restored database that has no table for audit records yet. */
const restoredWithoutRecord = 1

/**
 * Writes the audit record of a restore into the restored database. If the backup is older than the audit trail, the database has
 * no table for the record. Then the restored database is marked, and `recordRestore` writes the record when the database is next
 * opened.
 * @param file the path of the backup
 */
export function noteRestore(database: Database, file: string): void {
  const hasTrail = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'audit_records'").get() !== undefined
  if (hasTrail) writeRecord(database, commandLine, globalEntry('database.restored', null, { backup: basename(file) }))
  else database.pragma(`user_version = ${restoredWithoutRecord}`)
}

/** Writes the audit record of a restore into a database that `noteRestore` has marked. */
export function recordRestore(database: Database): void {
  if (database.pragma('user_version', { simple: true }) !== restoredWithoutRecord) return
  inTransaction(database, () => {
    if (database.pragma('user_version', { simple: true }) !== restoredWithoutRecord) return
    writeRecord(database, commandLine, globalEntry('database.restored', null, null))
    database.pragma('user_version = 0')
  })
}
