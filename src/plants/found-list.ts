import { hash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { callerOf } from '../access/guard.ts'
import type { Scripts } from '../storage/scripts.ts'
import type { Cursors } from './cursor.ts'
import { type DetailedPlant, plantsPerRead, readDetailed } from './details.ts'
import { type Found, type FoundPlant, findPlants, type Search, type Sort } from './find.ts'
import { fold } from './fold.ts'
import { shownPlants } from './includes.ts'
import type { RouteOptions } from './options.ts'
import { digestOf, linkTo, sendIfNotModified, sendPage } from './page-replies.ts'
import { checkedText } from './plant.ts'
import { includedIn, isBare } from './schemas.ts'

/** The values of the parameter `archived`. */
export const archivedChoices = ['true', 'false', 'all'] as const

/** The parameters of a list that is a search, or shows more than names and tags. */
export interface FoundQuery {
  readonly limit?: number
  readonly tag?: string
  readonly q?: string
  readonly place?: string
  readonly archived?: (typeof archivedChoices)[number]
  readonly sort?: Sort
  readonly include?: string
  readonly after?: string
}

/** The most plants of a page, also without a `limit`. */
export const maxFound = 1000
/** A page with long notes ends when its text is longer, in characters. */
const maxPageLength = 1024 ** 2

/** Whether a list needs a search or the details of its plants: all other lists are pages of stored texts. */
export function isSearch({ q, place, archived, sort, include }: FoundQuery): boolean {
  if (q !== undefined || place !== undefined || archived !== undefined || sort !== undefined) return true
  return !isBare(include)
}

/** Replies with a page of found plants. @throws ApiError 400 for a wrong parameter, and for a cursor of another search */
export async function sendFound(
  request: FastifyRequest,
  reply: FastifyReply,
  query: FoundQuery,
  { store, scripts, pages, cursors, includes }: RouteOptions & { readonly cursors: Cursors },
): Promise<void> {
  const account = callerOf(request).account.id
  const included = includedIn(query.include)
  const search = searchOf(query)
  const after = placeIn(query.after, search, cursors)
  const limit = Math.min(query.limit ?? maxFound, maxFound)
  // Care changes with the date, so its replies have no `ETag`.
  const hasTag = !included.has('care') && !included.has('due')
  // The version is read before the plants: after a change in between, the `ETag` is too old, never too new.
  const version = hasTag ? store.version(account) : null
  if (version !== null) {
    if (sendIfNotModified(request, reply, version, query.include)) return
    const ready = pages.get(account, request.url, version)
    if (ready) return sendPage(reply, ready)
  }
  const isOver = () => reply.raw.destroyed
  const { found, isMore } = await findPlants(scripts, account, search, limit, after, isOver)
  const { texts, last } = await textsOf(found, async (some) =>
    shownPlants(includes, account, await readFound(scripts, some), included),
  )
  if (isOver()) return
  const hasNext = last && (isMore || last !== found.at(-1))
  const text = `[${texts.join()}]`
  const page = hasNext ? { text, link: linkAfter(last, search, query, cursors) } : { text }
  if (version !== null) pages.set(account, request.url, version, page)
  else if (hasTag && sendIfNotModified(request, reply, digestOf(page), query.include)) return
  sendPage(reply, page)
}

/** The texts of found plants, until they are too long for one page, and the last plant. @param show makes the replies of plants */
async function textsOf(
  found: readonly FoundPlant[],
  show: (some: readonly FoundPlant[]) => Promise<readonly object[]>,
): Promise<{ readonly texts: readonly string[]; readonly last: FoundPlant | undefined }> {
  const texts: string[] = []
  let length = 0
  let last: FoundPlant | undefined
  for (let at = 0; at < found.length && length < maxPageLength; at += plantsPerRead) {
    const some = found.slice(at, at + plantsPerRead)
    for (const plant of await show(some)) {
      const text = JSON.stringify(plant)
      length += text.length
      texts.push(text)
    }
    last = some.at(-1)
  }
  return { texts, last }
}

/** Reads found plants. A plant that was removed or lost its tag meanwhile is left out. */
async function readFound(scripts: Scripts, found: readonly FoundPlant[]): Promise<readonly DetailedPlant[]> {
  const plants: DetailedPlant[] = []
  for (const [account, some] of Map.groupBy(found, (each) => each.account)) {
    const ids = some.map(({ id }) => id)
    const byId = await scripts.readPortion(() => readDetailed(account, ids))
    for (const { id, tags } of some) {
      const plant = byId.get(id)
      if (plant && (!tags || tags.includes(plant.tag ?? ''))) plants.push(plant)
    }
  }
  return plants
}

function searchOf({ q, tag, place, archived, sort = 'id' }: FoundQuery): Search {
  return {
    ...(q === undefined ? {} : { q: fold(checkedText('q', q)) }),
    ...(tag === undefined ? {} : { tag: checkedText('tag', tag) }),
    ...(place === undefined ? {} : { place: checkedText('place', place) }),
    ...(archived === undefined || archived === 'all' ? {} : { archived: archived === 'true' }),
    sort,
  }
}

/** The name under which the cursors of a search are written; undefined for the cursors of lists that are no search. */
function listOf({ q, tag, place, archived, sort }: Search): string | undefined {
  const isPlain = q === undefined && place === undefined && archived === undefined && sort === 'id'
  return isPlain ? undefined : `plants ${hash('sha256', JSON.stringify([q, tag, place, archived, sort]), 'base64url')}`
}

/** Reads a cursor. @throws ApiError 400 for a cursor of another search */
function placeIn(cursor: string | undefined, search: Search, cursors: Cursors): Found | undefined {
  if (cursor === undefined) return undefined
  const list = listOf(search)
  if (list === undefined) {
    const { account, id } = cursors.read(cursor)
    return { account, key: id, id }
  }
  const [account, key = '', id] = cursors.readPlace(list, cursor)
  return { account: Number(account), key, id: Number(id) }
}

/** The `Link` header of the next page. */
function linkAfter({ account, key, id }: Found, search: Search, query: FoundQuery, cursors: Cursors): string {
  const list = listOf(search)
  const after = list === undefined ? cursors.write({ account, id }) : cursors.writePlace(list, [account, key, id])
  const { limit, tag, q, place, archived, sort, include } = query
  return linkTo({ limit, tag, q, place, archived, sort, include, after })
}
