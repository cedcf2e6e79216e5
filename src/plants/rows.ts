import { type PlantPage, type PlantQuery, type StoredPlant, toReply } from './plant.ts'
import type { Import } from './transfers.ts'

/** A plant as the database keeps it. */
export interface PlantRow {
  readonly account: number
  readonly id: number
  readonly name: string
  readonly tag: string | null
}

/** What the first request with an idempotency key asked for, and the plant that it was answered with. */
export interface KeyedRow {
  readonly request: string
  readonly plant: number
  readonly name: string
  readonly tag: string | null
}

/** That an account lets another one see its plants with this tag, all of them where it is empty. */
export interface GrantRow {
  readonly owner: number
  readonly tag: string
}

/** An account that lets another one see its plants: all of them where there are no tags, else those with one of these. */
export interface Sharer {
  readonly account: number
  readonly tags: readonly string[] | undefined
}

/** A range of a list: plants of one account by id, all or with one of these tags, after one id and up to the other. */
export interface IdRange {
  readonly account: number
  readonly tags: readonly string[] | undefined
  readonly afterId: number | undefined
  readonly upToId?: number | undefined
}

/** Milliseconds that a long list may take, since the moment that it shows holds up the database's cleaning. */
export const maxListMs = 600_000

/** What a long list is broken off with: going on would show two moments. */
export function listTimedOut(): Error {
  return new Error('the reader of a long list took longer than ten minutes')
}

/** The plant that a row stands for. */
export function toPlant({ account, id, name, tag }: PlantRow): StoredPlant {
  return tag === null ? { account, id, name } : { account, id, name, tag }
}

/**
 * The page that begins with these plants, of which one more than the page may have was asked for.
 * @param shownWithIds the account whose plants are shown with their ids; undefined for none
 */
export function pageOf(plants: readonly StoredPlant[], limit: number, shownWithIds: number | undefined): PlantPage {
  const shown = plants.slice(0, limit)
  const json = JSON.stringify(shown.map((plant) => toReply(plant, plant.account === shownWithIds)))
  const last = plants.length > limit ? shown.at(-1) : undefined
  return last ? { json, last: { account: last.account, id: last.id } } : { json }
}

/** Who shares, in the order of the grants, which is by owner. */
export function sharersOf(grants: readonly GrantRow[]): readonly Sharer[] {
  return [...Map.groupBy(grants, ({ owner }) => owner)].map(([account, granted]) => {
    const tags = granted.map(({ tag }) => tag)
    return { account, tags: tags.includes('') ? undefined : tags }
  })
}

/** What a list is put together from, in order: the account's own plants first, then those of its sharers. */
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
  const asked = tag === undefined ? undefined : [tag]
  const isPastOwn = after !== undefined && after.account !== account
  if (!isPastOwn) yield { account, tags: asked, afterId: after?.id }
  for (const sharer of sharers) {
    if (isPastOwn && sharer.account < after.account) continue
    if (tag !== undefined && sharer.tags?.includes(tag) === false) continue
    const afterId = sharer.account === after?.account ? after.id : undefined
    yield { account: sharer.account, tags: asked ?? sharer.tags, afterId }
  }
}

/** Plants as lines of an account's file in UTF-8, and the id of the last one; nulls where there are none. */
export type LinesRow = { readonly last: number; readonly lines: Buffer } | { readonly last: null; readonly lines: null }

/** An import as the database keeps it. */
export interface ImportRow {
  readonly plants: number
  readonly done: number
  readonly highest: number | null
  readonly undoing: number
}

/** The import that a row tells of. */
export function importOf({ plants, done, highest, undoing }: ImportRow): Import {
  return { plants, done, highest, isUndoing: undoing === 1 }
}
