import type { AuditRecord } from '../../src/audit/record.ts'
import type { Stores } from '../../src/stores/stores.ts'

/** All records of a database, the oldest first. */
export function allRecords({ audit }: Pick<Stores, 'audit'>): Promise<readonly AuditRecord[]> {
  return audit.list({ limit: 1_000_000 })
}

/** The actor of what a command does, as a record names it. */
export const byCommand = { actor: { kind: 'command_line', key: null, account: null }, from: null }

/** The actor of what the service does by itself. */
export const byService = { actor: { kind: 'service', key: null, account: null }, from: null }

/** The actor of what a caller of a test's service does with this key. */
export function byKey(key: string, account: string) {
  return { actor: { kind: 'key', key: key.slice(0, 7), account }, from: '127.0.0.1' }
}
