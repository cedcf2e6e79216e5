import { hash } from 'node:crypto'
import { setImmediate as endOfTurn } from 'node:timers/promises'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { sendAtEndOfTurn } from '../http/end-of-turn.ts'
import { plantsPrefix } from '../http/errors.ts'
import { namesTag } from '../http/etag.ts'
import { writeCursor } from './cursor.ts'
import type { Page } from './page-cache.ts'
import type { PlantPage, PlantQuery, PlantsVersion, Position } from './plant.ts'

/** A list that is asked for. */
export interface ListRequest {
  readonly query: PlantQuery
  /** How many plants it has at most; infinite for all of them. */
  readonly limit: number
  /** The tag as it was sent: the address of the next page has it again. */
  readonly tag: string | undefined
}

/** The type of everything that the plants group sends as text of its own. */
export const jsonType = 'application/json; charset=utf-8'

/** Sends a page. */
export function sendPage(reply: FastifyReply, { text, link }: Page): void {
  reply.header('content-type', jsonType)
  if (link !== undefined) reply.header('link', link)
  sendAtEndOfTurn(reply, text)
}

/** The version of a page where the store knows none: of all that goes out, the address of the next page too. */
export function digestOf({ text, link = '' }: Page): PlantsVersion {
  return hash('sha256', `${text}\n${link}`, 'base64url')
}

/** Names the version of a reply, and sends a 304 where the caller has that one already; tells whether it has. */
export function sendIfNotModified(
  request: FastifyRequest,
  reply: FastifyReply,
  version: PlantsVersion,
  { withIds }: PlantQuery,
): boolean {
  // With ids the same version is another reply.
  const tag = withIds ? `${version}.id` : version
  reply.header('etag', `W/"${tag}"`)
  const isThere = namesTag(request.headers['if-none-match'], tag)
  if (isThere) reply.code(304).send()
  return isThere
}

/** The `Link` header (RFC 8288) of a page that others follow. */
export function nextLink(last: Position, { query, limit, tag }: ListRequest): string {
  const tagged = tag === undefined ? '' : `&tag=${encodeURIComponent(tag)}`
  const included = query.withIds ? '&include=id' : ''
  return `<${plantsPrefix}?limit=${limit}${tagged}${included}&after=${writeCursor(last)}>; rel="next"`
}

/** Pages as the text of one JSON array, a piece to a page. */
export async function* jsonArray(pages: AsyncIterable<PlantPage>): AsyncIterable<string> {
  let separator = '['
  for await (const { json } of pages) {
    yield separator + json.slice(1, -1)
    separator = ','
    // A reader that keeps up takes each piece at once, and everybody else would wait until it has them all.
    await endOfTurn()
  }
  yield ']'
}
