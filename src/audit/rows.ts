import { randomUUID } from 'node:crypto'
import { invalidField } from '../errors.ts'
import { isFields } from '../fields.ts'
import { unixSeconds } from '../time.ts'
import type { Actor, AuditEntry, AuditRecord, Facts } from './record.ts'

/** A record as a row of the database. */
export interface AuditRow {
  readonly id: string
  readonly at: number
  readonly actor: string
  readonly actor_key: string | null
  readonly actor_account: string | null
  readonly address: string | null
  readonly action: string
  readonly target: string | null
  readonly before: string | null
  readonly after: string | null
}

/** The columns of a record without its number and its account. */
export const auditColumns = 'id, at, actor, actor_key, actor_account, address, action, target, before, after'

/** Makes the record of an entry, with a new id and the current time. */
export function recordOf({ kind, key, account, from }: Actor, entry: AuditEntry): AuditRecord {
  const { action, target, before, after } = entry
  const id = `audit_${randomUUID().replaceAll('-', '')}`
  return {
    object: 'audit_record',
    id,
    at: unixSeconds(),
    actor: { kind, key, account },
    from,
    action,
    target,
    before,
    after,
  }
}

/** The row of a record. */
export function toRow({ id, at, actor, from, action, target, before, after }: AuditRecord): AuditRow {
  const { kind, key, account } = actor
  const facts = { before: before && JSON.stringify(before), after: after && JSON.stringify(after) }
  return { id, at, actor: kind, actor_key: key, actor_account: account, address: from, action, target, ...facts }
}

/** The record of a row. */
export function toRecord(row: AuditRow): AuditRecord {
  const { id, at, actor, actor_key: key, actor_account: account, address: from, action, target } = row
  const kind = actor === 'key' || actor === 'command_line' ? actor : 'service'
  const facts = { before: factsIn(row.before), after: factsIn(row.after) }
  return { object: 'audit_record', id, at, actor: { kind, key, account }, from, action, target, ...facts }
}

/** The refusal of an `after` whose record does not exist, does not match the filters, or may not be seen by the caller. */
export function unknownAfter(): Error {
  return invalidField('after', 'is not the id of a record of this list', 'The value of')
}

/** Parses JSON that this service has written. */
function factsIn(json: string | null): Facts | null {
  const value: unknown = json === null ? null : JSON.parse(json)
  return isFields(value) ? value : null
}
