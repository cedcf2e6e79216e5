import { randomUUID } from 'node:crypto'
import { ApiError, invalidField } from '../errors.ts'
import { isFields, valueIn } from '../fields.ts'
import type { Prunable } from '../storage/prune.ts'
import type { Script } from '../storage/scripts.ts'
import { unixSeconds } from '../time.ts'

/** The actions of audit records. Operators see these names. */
export const auditActions = [
  'key.created',
  'key.rotated',
  'key.revoked',
  'key.limited',
  'account.created',
  'account.suspended',
  'account.resumed',
  'account.limited',
  'account.changed',
  'account.deleted',
  'account.exported',
  'account.imported',
  'account.import_undone',
  'share.granted',
  'share.revoked',
  'feed.created',
  'feed.ended',
  'character.created',
  'character.replaced',
  'character.deleted',
  'character.purged',
  'database.restored',
  'database.migrated',
  'models.reloaded',
] as const
export type AuditAction = (typeof auditActions)[number]

/** The author of a change: a caller with a key, the operator at the command line, or the service itself. */
export interface Actor {
  readonly kind: 'key' | 'command_line' | 'service'
  /** The prefix of the caller's key. Without a key, `key`, `account` and `from` are null. */
  readonly key: string | null
  /** The name of the key's account. */
  readonly account: string | null
  /** The caller's address. */
  readonly from: string | null
  /** Called with each record of the actor's changes once it is on disk. */
  readonly onRecord?: (record: AuditRecord) => void
  /** The limits on the actor's changes of a day (UTC); by default the changes are not counted. */
  readonly changeLimits?: readonly ChangeLimit[]
}

/** A limit on changes of a day. Each change is counted in its own transaction, in the table `spend`. */
export interface ChangeLimit {
  /** The subject of the count: `changes:key:ID` or `changes:account:ID`. */
  readonly subject: string
  readonly limit: number
}

/**
 * Checks the count of a subject that already includes the change.
 * @throws ApiError 429 when the count is over the limit; then the transaction of the change must end without a commit
 */
export function checkChanges(limit: number, count: number): void {
  if (count <= limit) return
  const seconds = secondsOfDay - (unixSeconds() % secondsOfDay)
  const message = `The request would exceed the limit changes_per_day of ${limit}. Try again in ${seconds} s.`
  throw new ApiError(429, 'rate_limit_exceeded', message, { headers: { 'retry-after': String(seconds) } })
}

const secondsOfDay = 86_400

/** Names and values that describe one side of a change. */
export type Facts = Readonly<Record<string, unknown>>

/** The facts that a store records about a change: never a secret, the digest of a secret, or the text of a card or a message. */
export interface AuditEntry {
  readonly action: AuditAction
  /** A key's prefix, the name of an account or a character, or `A>B` or `A>B#tag` for a share; null for other subjects. */
  readonly target: string | null
  /** The account of the change; null for a change without an account. The name is needed only if the account is deleted. */
  readonly account: { readonly id: number; readonly name?: string } | null
  /** Values before the change; null if there are none. */
  readonly before: Facts | null
  /** Values after the change; null if there are none. */
  readonly after: Facts | null
}

/** A record of the audit trail, as replies, commands and the log show it. */
export interface AuditRecord {
  readonly object: 'audit_record'
  readonly id: string
  /** Unix seconds. */
  readonly at: number
  readonly actor: Pick<Actor, 'kind' | 'key' | 'account'>
  readonly from: string | null
  /** One of `auditActions`, or an action of a newer version. */
  readonly action: string
  readonly target: string | null
  readonly before: Facts | null
  readonly after: Facts | null
}

/** Filters of a list of records. */
export interface AuditQuestion {
  /** The first moment, in Unix seconds. */
  readonly since?: number | undefined
  /** Only records of the account with this id. A new account with the name of a deleted account does not see the old records. */
  readonly accountId?: number | undefined
  /** Only records of accounts with this name, deleted accounts included. */
  readonly accountName?: string | undefined
  readonly action?: AuditAction | undefined
  /** The id of the record after which the list begins. */
  readonly after?: string | undefined
  readonly limit: number
}

/** The audit trail. Stores write the records of their own changes in their transactions; `change` and `record` are for all other changes. */
export interface AuditTrail extends Prunable {
  /**
   * Up to `limit` records in the order of their changes. A caller that continues after the last record misses no record.
   * @param work the work of the request; by default all records are read without interruption
   * @throws ApiError 400 when `after` is not the id of a record that matches the filters
   */
  list(question: AuditQuestion): Promise<readonly AuditRecord[]>
  /**
   * Runs a change and writes its records in one transaction, which is on disk when the promise resolves.
   * @throws ApiError 403 when the account was deleted, 429 over `changes_per_day`, 503 or 507 when the database cannot write
   */
  change<T>(change: (record: Recorder) => Script<T>): Promise<T>
  /** Writes the audit record of a change that is not made in the database, such as a reload of `models.json`. */
  record(by: Actor, entry: AuditEntry): Promise<void>
}

/** The store that commands on the audit trail need. */
export interface AuditStores {
  readonly audit: AuditTrail
}

const noKey = { key: null, account: null, from: null }

/** The operator at the command line. There is no `onRecord`, because a command has no log. */
export const commandLine: Actor = { kind: 'command_line', ...noKey }

/** The service itself, for example at its first start. */
export function serviceActor(onRecord?: (record: AuditRecord) => void): Actor {
  return { kind: 'service', ...noKey, ...(onRecord && { onRecord }) }
}

/**
 * The facts that differ between two states of a subject, as the two sides of an entry. Without one state, the other is complete.
 */
export function changesOf(before: Facts | null, after: Facts | null): Pick<AuditEntry, 'before' | 'after'> {
  if (!before || !after) return { before, after }
  const isChanged = (name: string) => JSON.stringify(valueIn(before, name)) !== JSON.stringify(valueIn(after, name))
  const differing = (facts: Facts): Facts =>
    Object.fromEntries(Object.entries(facts).filter(([name]) => isChanged(name)))
  return { before: differing(before), after: differing(after) }
}

/** An audit entry about the whole database, or about another subject that belongs to no account. */
export function globalEntry(
  action: 'database.restored' | 'database.migrated' | 'models.reloaded',
  before: Facts | null,
  after: Facts | null,
): AuditEntry {
  return { action, target: null, account: null, before, after }
}

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
  const actor = { kind, key, account }
  return { object: 'audit_record', id, at: unixSeconds(), actor, from, action, target, before, after }
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

/**
 * Adds an audit record to the transaction of a script. To be called at its end: over PostgreSQL, it locks the counter of records,
 * and other transactions wait for that lock.
 */
export type Recorder = (by: Actor, entry: AuditEntry) => Script<void>
