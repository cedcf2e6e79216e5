import { type AuditAction, type AuditEntry, changesOf, type Facts } from '../audit/record.ts'
import type { Account, Key } from './access.ts'

/** The audit entry of a new or deleted account. */
export function accountEntry(action: 'account.created' | 'account.deleted', account: Account): AuditEntry {
  const { id, name } = account
  const facts = factsOfAccount(account)
  const isNew = action === 'account.created'
  return { action, target: name, account: { id, name }, before: isNew ? null : facts, after: isNew ? facts : null }
}

/** The audit entry of a changed account. */
export function accountChange(action: AuditAction, before: Account, after: Account): AuditEntry {
  const { id, name } = after
  return { action, target: name, account: { id, name }, ...changesOf(factsOfAccount(before), factsOfAccount(after)) }
}

/** The audit entry of a new key. */
export function newKeyEntry(key: Key): AuditEntry {
  return { action: 'key.created', target: key.prefix, account: key.account, before: null, after: factsOfKey(key) }
}

/** The audit entry of a changed key. @param successor the new key of a rotation */
export function keyChange(action: AuditAction, before: Key, after: Key, successor?: Key): AuditEntry {
  const { before: was, after: is } = changesOf(factsOfKey(before), factsOfKey(after))
  const added = successor && { successor: successor.prefix }
  return { action, target: after.prefix, account: after.account, before: was, after: { ...is, ...added } }
}

function factsOfAccount({ suspended, limits, models }: Account): Facts {
  return { suspended, limits, models }
}

/** The properties of a key that audit records show. */
function factsOfKey({ account, name, scopes, expires, revoked, limits, models }: Key): Facts {
  return { account: account.name, name, scopes, expires, revoked, limits, models }
}
