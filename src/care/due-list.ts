import { type GrantRow, sharersOf } from '../plants/rows.ts'
import { joined, query, rowsOf, type Script, type Scripts, type Statement, sql } from '../storage/scripts.ts'

/* What is due for the plants that an account sees: its own plants, and those that other accounts share with it. */

/** A rule with a due date. */
export interface DueRule {
  readonly account: number
  readonly plant: number
  readonly name: string
  readonly kind: string
  readonly due: string
  /** The time of the last event, in Unix seconds; null without an event. */
  readonly last: number | null
}

/** A place in the list, which is sorted by date, plant, kind and account. */
export type DuePlace = Pick<DueRule, 'due' | 'plant' | 'kind' | 'account'>

interface DueRow extends DueRule {
  readonly tag: string | null
  readonly archived: number
}

/** The highest number of days from today on that may belong to the list. */
export const maxWithinDays = 366
/** The rows that one statement reads. With SQLite, it blocks the event loop for some 2 ms. */
const rowsPerPortion = 500
const maxFewPlants = 2000

/** An account's plants, or only those with one of these tags. */
interface SeenPlants {
  readonly account: number
  readonly tags: readonly string[] | undefined
}

/**
 * The due dates of the plants that an account sees, by date, plant, kind and account, without those of archived plants.
 * @param until the last due date
 * @param after only entries after this one
 */
export async function readDue(
  scripts: Scripts,
  caller: number,
  until: string,
  after: DuePlace | undefined,
  limit: number,
): Promise<readonly DueRule[]> {
  const grants = await scripts.read(() =>
    query<GrantRow>('SELECT owner, tag FROM grants WHERE grantee = $1 ORDER BY owner, tag', caller),
  )
  let found: readonly DueRule[] = []
  for (const seen of [{ account: caller, tags: undefined }, ...sharersOf(grants)]) {
    const latest = found[limit - 1]?.due ?? until
    const more = await readDueOf(scripts, seen, latest, after, limit)
    found = [...found, ...more].sort(comparePlaces).slice(0, limit)
  }
  return found
}

async function readDueOf(
  scripts: Scripts,
  seen: SeenPlants,
  until: string,
  after: DuePlace | undefined,
  limit: number,
): Promise<readonly DueRule[]> {
  const isRare = await scripts.readPortion(() => hasFewPlants(seen))
  const found: DueRule[] = []
  let place = after
  // Most pages need one portion. More portions are read if many rules are of archived plants, or of plants without the tags.
  for (let portion = Math.min(limit, rowsPerPortion); ; portion = rowsPerPortion) {
    const from = place
    const rows = await scripts.readPortion(() => dueRows(seen, isRare, until, from, portion))
    found.push(...rows.filter(({ tag, archived }) => archived === 0 && hasTag(seen, tag)))
    place = rows.at(-1)
    if (found.length >= limit || rows.length < portion) return found.slice(0, limit)
  }
}

function hasTag({ tags }: SeenPlants, tag: string | null): boolean {
  return tags === undefined || (tag !== null && tags.includes(tag))
}

/** Whether so few plants have the tags that it takes less time to read all their rules than to look for them by their dates. */
function* hasFewPlants({ account, tags }: SeenPlants): Script<boolean> {
  if (!tags) return false
  const limit = sql`LIMIT ${maxFewPlants + 1}`
  const plants = yield* rowsOf(sql`SELECT id FROM plants WHERE account = ${account} AND ${isTagged(tags)} ${limit}`)
  return plants.length <= maxFewPlants
}

function isTagged(tags: readonly string[]): Statement {
  return sql`tag IN (${joined(
    tags.map((tag) => sql`${tag}`),
    ', ',
  )})`
}

function dueRows(
  { account, tags = [] }: SeenPlants,
  isRare: boolean,
  until: string,
  after: DuePlace | undefined,
  limit: number,
): Script<readonly DueRow[]> {
  // Of two accounts with entries for the same date, plant and kind, the one with the lower id comes first.
  const comparison = after && account > after.account ? sql`>=` : sql`>`
  // In a CROSS JOIN, SQLite reads the first table first. Of an expression it does not use the index of due dates.
  const tables = isRare ? sql`plants CROSS JOIN care_rules AS r` : sql`care_rules AS r CROSS JOIN plants`
  const due = isRare ? sql`r.due || ''` : sql`r.due`
  const next = after
    ? sql`AND (${due}, r.plant, r.kind) ${comparison} (${after.due}, ${after.plant}, ${after.kind})`
    : sql``
  return rowsOf(sql`
    SELECT r.account, r.plant, r.kind, r.due, r.last, name, tag, archived
    FROM ${tables}
    WHERE r.account = ${account} AND plants.account = ${account} AND plants.id = r.plant AND ${due} <= ${until} ${next}
      ${isRare ? sql`AND ${isTagged(tags)}` : sql``}
    ORDER BY r.due, r.plant, r.kind LIMIT ${limit}`)
}

/** The order of the list. */
export function comparePlaces(one: DuePlace, other: DuePlace): number {
  if (one.due !== other.due) return one.due < other.due ? -1 : 1
  if (one.plant !== other.plant) return one.plant - other.plant
  if (one.kind !== other.kind) return one.kind < other.kind ? -1 : 1
  return one.account - other.account
}
