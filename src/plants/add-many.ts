import type { Recorder } from '../audit/record.ts'
import { ApiError } from '../errors.ts'
import { joined, query, rowsOf, type Script, sql } from '../storage/scripts.ts'
import { insertPlants } from './details.ts'
import { changeOnce } from './kept-replies.ts'
import type { ManyAdded, ManyPlants, StoredPlant } from './plant.ts'
import { idTaken, nextId, transferEntry } from './policy.ts'
import { nameOf } from './shares.ts'

/** How an engine adds many plants. */
export interface ManyStatements {
  /** Counts the account's plants. @param enough the count may stop at this number */
  count(enough: number): Script<number>
  /** Adds an audit record to the transaction. */
  readonly record: Recorder
}

/** The most plants of one statement, and of one turn of the event loop. */
const plantsPerStep = 100

/**
 * Adds plants in their order, as if each was added after the one before.
 * @throws ApiError 409 when an id is taken or none is left, 429 when the limit would be exceeded, 422 when the idempotency key was
 *   used for another request. Then nothing is written
 */
export function* addMany(many: ManyPlants, statements: ManyStatements): Script<ManyAdded> {
  const { account, plants, idempotency, importedBy } = many
  const { kept, at, isReplay } = yield* changeOnce(account, idempotency, function* (now) {
    const highest = yield* checkMany(many, statements)
    const name = yield* nameOf(account)
    for (const some of inSteps(withIds(many, highest))) yield* insertPlants(account, some, now)
    if (importedBy) {
      yield* statements.record(importedBy, transferEntry('account.imported', account, name, plants.length))
    }
    return String(highest)
  })
  return { plants: withIds(many, Number(kept)), created: at, isReplay }
}

/**
 * Checks whether plants can be added.
 * @returns the highest id of the account, at least 0: the ids of the plants follow from it
 * @throws the errors of `addMany`
 */
export function* checkMany(many: ManyPlants, statements: Pick<ManyStatements, 'count'>): Script<number> {
  const { account, plants, limit, faultAt } = many
  if (limit !== undefined && (yield* statements.count(limit)) + plants.length > limit)
    throw overLimit(limit, plants.length)
  const [row] = yield* query<{ highest: number | null }>(
    'SELECT max(id) AS highest FROM plants WHERE account = $1',
    account,
  )
  const highest = Math.max(0, row?.highest ?? 0)
  const indexOf = new Map(withIds(many, highest).map(({ id }, index) => [id, index]))
  for (const some of inSteps(plants.flatMap(({ id }) => (id === undefined ? [] : [id])))) {
    // All lists have the same length, so that there is one statement to prepare.
    const ids = joined(
      Array.from({ length: plantsPerStep }, (_, at) => sql`${some[at] ?? some[0] ?? 0}`),
      ', ',
    )
    const [taken] = yield* rowsOf<{ id: number }>(
      sql`SELECT id FROM plants WHERE account = ${account} AND id IN (${ids})`,
    )
    if (taken) throw faultAt(indexOf.get(taken.id) ?? 0, idTaken(taken.id))
  }
  return highest
}

/** Gives an id to each plant without one: one more than the highest id so far. @throws ApiError 409 for an id that is sent twice */
function withIds({ account, plants, faultAt }: ManyPlants, highest: number): readonly StoredPlant[] {
  const ids = new Set<number>()
  let last = highest
  return plants.map((plant, index) => {
    try {
      const id = plant.id ?? nextId(last)
      if (ids.has(id)) throw idTaken(id)
      ids.add(id)
      last = Math.max(last, id)
      return { ...plant, account, id }
    } catch (error) {
      throw error instanceof ApiError ? faultAt(index, error) : error
    }
  })
}

function* inSteps<T>(items: readonly T[]): Iterable<readonly T[]> {
  for (let at = 0; at < items.length; at += plantsPerStep) yield items.slice(at, at + plantsPerStep)
}

function overLimit(limit: number, plants: number): ApiError {
  const message = `With ${plants} plants more, the account would exceed its limit "plants" of ${limit}. Send fewer, delete plants, or ask the operator for a higher limit.`
  return new ApiError(429, 'plants_limit', message)
}
