import { type PlantPage, type PlantQuery, type StoredPlant, toReply } from './plant.ts'
import type { NewPlant } from './schemas.ts'

/** A plant's row in the database. */
export interface PlantRow {
  readonly account: number
  readonly id: number
  readonly name: string
  readonly tag: string | null
}

/** A plant's row with the plant's version. */
export interface VersionedRow extends PlantRow {
  readonly version: number
}

/** The digest of the first request with an idempotency key, and the id of the plant that it added. */
export interface KeyedRow {
  readonly request: string
  readonly plant: number
  /** When the plant was added, in Unix seconds. */
  readonly created: number
}

/** A share: another account may see the owner's plants with this tag, or all plants of the owner if the tag is empty. */
export interface GrantRow {
  readonly owner: number
  readonly tag: string
}

/** An account that shares plants: its plants with one of these tags, or all its plants if `tags` is undefined. */
export interface Sharer {
  readonly account: number
  readonly tags: readonly string[] | undefined
}

/**
 * A part of a list: the plants of one account, by id, after `afterId` and up to `upToId`. With `tags` only plants with one of the
 * tags.
 */
export interface IdRange {
  readonly account: number
  readonly tags: readonly string[] | undefined
  readonly afterId: number | undefined
  readonly upToId?: number | undefined
}

/** The longest time of a long list in SQLite: its snapshot keeps SQLite from restarting the write-ahead log. */
export const maxListMs = 600_000

/** The error that ends a long list whose snapshot is closed: more pages would be from another snapshot. */
export function listTimedOut(): Error {
  return new Error('the reader of a long list took longer than ten minutes')
}

/** A plant of an export or an import, with its details. Files of 0.2 have only ids, names and tags. */
export interface PortablePlant extends NewPlant {
  readonly id: number
  /** Unix seconds; missing for a plant that is older than its column. */
  readonly created?: number
  readonly updated?: number
  readonly version?: number
}

/** A plant's row in an export. */
export interface PortableRow extends Omit<PlantRow, 'account' | 'version'> {
  readonly species: string | null
  readonly place: string | null
  readonly light: string | null
  readonly acquired: string | null
  readonly notes: string | null
  readonly archived: number
  readonly created: number
  readonly updated: number
  readonly version: number
}

/** The columns of such a row. */
export const portableColumns =
  'p.id, name, tag, species, place, light, acquired, notes, archived, created, updated, version'
/** The tables of such a row. */
export const portableTables = 'plants AS p LEFT JOIN plant_details AS d ON d.account = p.account AND d.plant = p.id'

/** The plant of a row without its account. */
export function toPortable({ id, name, archived, created, updated, version, ...row }: PortableRow): PortablePlant {
  const details = Object.fromEntries(Object.entries(row).filter(([, value]) => value !== null))
  const times = { ...(created > 0 && { created }), ...(updated > 0 && { updated }) }
  return { id, name, ...details, ...(archived === 1 && { archived: true }), ...times, version }
}

/** The plant of a row. */
export function toPlant({ account, id, name, tag }: PlantRow): StoredPlant {
  return tag === null ? { account, id, name } : { account, id, name, tag }
}

/**
 * Makes a page of at most `limit` plants. The caller has read one plant more, which shows whether more plants follow.
 * @param shownWithIds the account whose plants are shown with their ids; undefined if no plant is shown with its id
 */
export function pageOf(plants: readonly StoredPlant[], limit: number, shownWithIds: number | undefined): PlantPage {
  const shown = plants.slice(0, limit)
  const json = JSON.stringify(shown.map((plant) => toReply(plant, plant.account === shownWithIds)))
  const last = plants.length > limit ? shown.at(-1) : undefined
  return last ? { json, last: { account: last.account, id: last.id } } : { json }
}

/** The sharers of these grants. @param grants the grants, sorted by owner, as the result is */
export function sharersOf(grants: readonly GrantRow[]): readonly Sharer[] {
  return [...Map.groupBy(grants, ({ owner }) => owner)].map(([account, granted]) => {
    const tags = granted.map(({ tag }) => tag)
    return { account, tags: tags.includes('') ? undefined : tags }
  })
}

/** Whether only a part of an account's plants is shared, by tag. */
export function isByTag({ tags }: Sharer): boolean {
  return tags !== undefined
}

/** The ranges of a list in order: the account's own plants first, then the plants of its sharers. */
export function* rangesOf(account: number, sharers: readonly Sharer[], query: PlantQuery): Iterable<IdRange> {
  const { upTo } = query
  for (const range of rangesAfter(account, sharers, query)) {
    const isLast = range.account === upTo?.account
    if (upTo && !isLast && range.account !== account && range.account > upTo.account) return
    yield isLast ? { ...range, upToId: upTo.id } : range
    if (isLast) return
  }
}

function* rangesAfter(account: number, sharers: readonly Sharer[], query: PlantQuery): Iterable<IdRange> {
  const { tag, after } = query
  const queriedTags = tag === undefined ? undefined : [tag]
  const isPastOwn = after !== undefined && after.account !== account
  if (!isPastOwn) yield { account, tags: queriedTags, afterId: after?.id }
  for (const sharer of sharers) {
    if (isPastOwn && sharer.account < after.account) continue
    if (tag !== undefined && sharer.tags?.includes(tag) === false) continue
    const afterId = sharer.account === after?.account ? after.id : undefined
    yield { account: sharer.account, tags: queriedTags ?? sharer.tags, afterId }
  }
}

/** With SQLite, reading a page of this size blocks the event loop for a tenth of a millisecond. */
const plantsPerPage = 500

/**
 * Reads the pages of a long list, one after the other.
 * @param limit the highest number of plants; the last page says whether more follow
 * @param read reads at most `length` plants
 */
export async function* pagesOf(
  query: PlantQuery,
  limit: number,
  read: (from: PlantQuery, length: number) => PlantPage | Promise<PlantPage>,
): AsyncIterable<PlantPage> {
  let from: PlantQuery | undefined = query
  for (let left = limit; from && left > 0; left -= plantsPerPage) {
    const page: PlantPage = await read(from, Math.min(left, plantsPerPage))
    yield page
    from = page.last && { ...query, after: page.last }
  }
}
