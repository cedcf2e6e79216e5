import type { AuditEntry } from '../audit/record.ts'
import { ApiError } from '../errors.ts'
import type { AddedPlant, Idempotency } from './plant.ts'
import type { KeyedRow } from './rows.ts'
import type { NewPlant } from './schemas.ts'

// Decisions that are the same for all engines: a store reads rows, calls these functions, and writes the result.

/**
 * The id for a new plant without an id: one more than the highest id of the account, at least 1.
 * @throws ApiError 409 when there is no higher id
 */
export function nextId(highest: number): number {
  if (highest < Number.MAX_SAFE_INTEGER) return Math.max(highest, 0) + 1
  const message = 'The highest possible id is taken, so no id can be assigned. Send an id.'
  throw new ApiError(409, 'no_id_left', message, { param: 'id' })
}

/** The refusal of an id that another plant of the account has. */
export function idTaken(id: number): ApiError {
  return new ApiError(409, 'id_taken', `There is a plant with the id ${id} already. Send another id, or none.`, {
    param: 'id',
  })
}

/** The refusal of an id that no plant of the account has. */
export function unknownPlant(): ApiError {
  return new ApiError(404, 'unknown_plant', 'You have no plant with this id. GET /plants lists your plants.')
}

/**
 * Checks that an account with `count` plants may have one plant more.
 * @throws ApiError 429, without `Retry-After`: the number of plants does not fall by waiting
 */
export function checkPlantsLimit(limit: number, count: number): void {
  if (count < limit) return
  const message = `The limit "plants" of ${limit} is reached: the account has as many plants or more. Delete plants, or ask the operator for a higher limit.`
  throw new ApiError(429, 'plants_limit', message)
}

/** The audit entry of an export, an import, or an import that is undone. */
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

export const keyLifetimeSeconds = 24 * 60 * 60

/** The most idempotency keys of removed plants that an account has: the newest. The limit on plants bounds all other keys. */
export const maxKeysOfRemoved = 10_000

/** The time, in Unix seconds, of the oldest idempotency key that is still valid. */
export function oldestValidKeySeconds(now: number): number {
  return now - keyLifetimeSeconds
}

/**
 * The reply to a request whose idempotency key was used before.
 * @param plant the plant of the repeated request, which has the same details as the first
 * @throws ApiError 422 when the key was used for another request
 */
export function replayOf(account: number, first: KeyedRow, { request }: Idempotency, plant: NewPlant): AddedPlant {
  if (first.request !== request) throw keyReused()
  return { plant: { ...plant, account, id: first.plant }, created: first.created, isReplay: true }
}

/** The refusal of an idempotency key that was used for another request. */
export function keyReused(): ApiError {
  return new ApiError(422, 'key_reused', 'This Idempotency-Key was used for another request. Send a new one.')
}
