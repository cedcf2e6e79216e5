import type { AuditRecord } from '../../src/audit/record.ts'
import type { Stores } from '../../src/stores/stores.ts'

/** All records of a database, the oldest first. */
export function allRecords({ audit }: Pick<Stores, 'audit'>): Promise<readonly AuditRecord[]> {
  return audit.list({ limit: 1_000_000 })
}

/** The actor of a command's audit records. */
export const byCommand = { actor: { kind: 'command_line', key: null, account: null }, from: null }

/** The actor of the service's own audit records. */
export const byService = { actor: { kind: 'service', key: null, account: null }, from: null }

/** The actor of the audit records of a caller with this key. */
export function byKey(key: string, account: string) {
  return { actor: { kind: 'key', key: key.slice(0, 11), account }, from: '127.0.0.1' }
}
