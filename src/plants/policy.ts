import type { AuditEntry } from '../audit/record.ts'
import { ApiError } from '../errors.ts'
import type { AddedPlant, Idempotency } from './plant.ts'
import { type KeyedRow, toPlant } from './rows.ts'

// What the stores of all engines decide alike: they read rows, ask here, and write what comes of it.

/**
 * The id for a new plant that names none: one more than the highest of its account, at least 1.
 * @throws ApiError 409 when none is left
 */
export function nextId(highest: number): number {
  if (highest < Number.MAX_SAFE_INTEGER) return Math.max(highest, 0) + 1
  const message = 'The highest id there can be is taken, so none can be assigned. Send an id.'
  throw new ApiError(409, 'no_id_left', message, { param: 'id' })
}

/** The refusal of an id that another plant of the account has. */
export function idTaken(id: number): ApiError {
  return new ApiError(409, 'id_taken', `There is a plant with the id ${id} already. Send another id, or none.`, {
    param: 'id',
  })
}

/**
 * Lets an account that has so many plants have one more, unless that is as many as it may.
 * @throws ApiError 429; no time to wait is told, since waiting frees nothing
 */
export function checkPlantsLimit(limit: number, count: number): void {
  if (count < limit) return
  const message = `The limit "plants" of ${limit} is reached: the account has as many or more. Delete some, or ask the operator for more.`
  throw new ApiError(429, 'plants_limit', message)
}

/**
 * Lets plants be shared with every account but one's own.
 * @throws ApiError 400
 */
export function checkGrantee(account: number, grantee: number): void {
  if (account === grantee) throw new ApiError(400, 'own_plants', 'An account sees its own plants already.')
}

/** A share as the store is asked for it, or to take it back. */
export interface ShareRequest {
  readonly account: number
  readonly owner: string
  readonly grantee: string
  /** Undefined for all plants, or all that is shared. */
  readonly tag: string | undefined
}

/** What is put on record of a share that is given or taken back. @param tags those it is of, empty for all plants */
export function shareEntry(
  action: 'share.granted' | 'share.revoked',
  { account, owner, grantee, tag }: ShareRequest,
  tags: readonly string[],
): AuditEntry {
  const target = `${owner}>${grantee}${tag === undefined ? '' : `#${tag}`}`
  const facts = { tags: tags.map((each) => each || null) }
  const isNew = action === 'share.granted'
  return { action, target, account: { id: account }, before: isNew ? null : facts, after: isNew ? facts : null }
}

/** What is put on record of an account whose plants are handed over, come in, or are taken back. */
export function transferEntry(
  action: 'account.exported' | 'account.imported' | 'account.import_undone',
  id: number,
  name: string,
  plants?: number,
): AuditEntry {
  const facts = plants === undefined ? null : { plants }
  const isUndone = action === 'account.import_undone'
  return {
    action,
    target: name,
    account: { id, name },
    before: isUndone ? facts : null,
    after: isUndone ? null : facts,
  }
}

/** Seconds for which an idempotency key is known. */
export const keyLifetimeSeconds = 24 * 60 * 60

/** The moment from which on idempotency keys are known: older ones are as if they had never been. Unix seconds. */
export function oldestValidKeySeconds(now: number): number {
  return now - keyLifetimeSeconds
}

/**
 * The answer to a request whose idempotency key was used before.
 * @throws ApiError 422 when it was used for another request
 */
export function replayOf(account: number, first: KeyedRow, { request }: Idempotency): AddedPlant {
  if (first.request !== request) {
    throw new ApiError(422, 'key_reused', 'This Idempotency-Key was used for another request. Send a new one.')
  }
  return { plant: toPlant({ account, id: first.plant, name: first.name, tag: first.tag }), isReplay: true }
}
