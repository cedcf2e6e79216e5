import { type AuditAction, type AuditEntry, changesOf, type Facts } from '../audit/record.ts'
import type { Account, Key } from './access.ts'

/** What is put on record of an account that is new or gone. */
export function accountEntry(action: 'account.created' | 'account.deleted', account: Account): AuditEntry {
  const { id, name } = account
  const facts = factsOfAccount(account)
  const isNew = action === 'account.created'
  return { action, target: name, account: { id, name }, before: isNew ? null : facts, after: isNew ? facts : null }
}

/** What is put on record of a change to an account. */
export function accountChange(action: AuditAction, before: Account, after: Account): AuditEntry {
  const { id, name } = after
  return { action, target: name, account: { id, name }, ...changesOf(factsOfAccount(before), factsOfAccount(after)) }
}

/** What is put on record of a new key. */
export function newKeyEntry(key: Key): AuditEntry {
  return { action: 'key.created', target: key.prefix, account: key.account, before: null, after: factsOfKey(key) }
}

/** What is put on record of a change to a key. @param successor the key that has been made in its place */
export function keyChange(action: AuditAction, before: Key, after: Key, successor?: Key): AuditEntry {
  const { before: was, after: is } = changesOf(factsOfKey(before), factsOfKey(after))
  const added = successor && { successor: successor.prefix }
  return { action, target: after.prefix, account: after.account, before: was, after: { ...is, ...added } }
}

function factsOfAccount({ suspended, limits, models }: Account): Facts {
  return { suspended, limits, models }
}

/** All that is known of a key but its secret, and when it was used. */
function factsOfKey({ account, name, scopes, expires, revoked, limits, models }: Key): Facts {
  return { account: account.name, name, scopes, expires, revoked, limits, models }
}
