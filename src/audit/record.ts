import type { Prunable } from '../storage/prune.ts'

/** What is put on record, by the names that operators know. */
export const auditActions = [
  'key.created',
  'key.rotated',
  'key.revoked',
  'key.limited',
  'account.created',
  'account.suspended',
  'account.resumed',
  'account.limited',
  'account.deleted',
  'account.exported',
  'account.imported',
  'account.import_undone',
  'share.granted',
  'share.revoked',
  'character.created',
  'character.replaced',
  'character.deleted',
  'character.purged',
  'database.restored',
  'database.migrated',
  'models.reloaded',
] as const
export type AuditAction = (typeof auditActions)[number]

/** By whom a change is made: a caller with a key, the operator at the command line, or the service by itself. */
export interface Actor {
  readonly kind: 'key' | 'command_line' | 'service'
  /** The prefix of the caller's key; null for the others, like what follows. */
  readonly key: string | null
  /** The name of the key's account. */
  readonly account: string | null
  /** The caller's address. */
  readonly from: string | null
  /** Hears of each record of the actor's changes, once it is on disk. */
  readonly tell?: (record: AuditRecord) => void
}

/** Names and numbers of what has changed. */
export type Facts = Readonly<Record<string, unknown>>

/** What a store puts on record of a change: never a secret, the digest of one, or the text of a card or a message. */
export interface AuditEntry {
  readonly action: AuditAction
  /** A key's prefix, an account's or a character's name, `A>B` of a share (with `#tag`); null for everything else. */
  readonly target: string | null
  /** The account that it is about; of one that is gone in this transaction, with its name. Null where it is about all of them. */
  readonly account: { readonly id: number; readonly name?: string } | null
  /** What was so before; null for what is new. */
  readonly before: Facts | null
  /** What is so now; null for what is gone. */
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
  /** One of `auditActions`, or one that only a newer version knows. */
  readonly action: string
  readonly target: string | null
  readonly before: Facts | null
  readonly after: Facts | null
}

/** Which records are asked for. */
export interface AuditQuestion {
  /** The first moment, Unix seconds. */
  readonly since?: number | undefined
  /** Those about the account with this id: another one that has the name of an account that is gone sees nothing of that. */
  readonly accountId?: number | undefined
  /** Those about accounts of this name, also of one that is gone. */
  readonly accountName?: string | undefined
  readonly action?: AuditAction | undefined
  /** The id of the record after which to begin. */
  readonly after?: string | undefined
  readonly limit: number
}

/** Reads the audit trail, and writes what has no other transaction. Stores write the records of their own changes. */
export interface AuditTrail extends Prunable {
  /**
   * At most `limit` records in the order of their changes: whoever goes on after the last one misses none.
   * @throws ApiError 400 for an `after` that is none of those that are asked for
   */
  list(question: AuditQuestion): Promise<readonly AuditRecord[]>
  /** Puts on record what has been done outside the database. */
  record(by: Actor, entry: AuditEntry): Promise<void>
}

/** The stores as far as it takes them to read the trail. */
export interface AuditStores {
  readonly audit: AuditTrail
}

const nobody = { key: null, account: null, from: null }

/** The operator. No log is open while a command runs. */
export const commandLine: Actor = { kind: 'command_line', ...nobody }

/** The service itself, as at its first start. @param tell hears of the records */
export function serviceActor(tell?: (record: AuditRecord) => void): Actor {
  return { kind: 'service', ...nobody, ...(tell && { tell }) }
}

/**
 * What differs between two states of the same thing, as the two sides of an entry; all of it where one side is null.
 */
export function changesOf(before: Facts | null, after: Facts | null): Pick<AuditEntry, 'before' | 'after'> {
  if (!before || !after) return { before, after }
  const isOther = (name: string) => JSON.stringify(before[name]) !== JSON.stringify(after[name])
  const differing = (facts: Facts): Facts => Object.fromEntries(Object.entries(facts).filter(([name]) => isOther(name)))
  return { before: differing(before), after: differing(after) }
}
