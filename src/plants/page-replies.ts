import { hash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { sendAtEndOfTurn } from '../http/end-of-turn.ts'
import { plantsPrefix } from '../http/errors.ts'
import { matchesTag } from '../http/etag.ts'
import type { Cursors } from './cursor.ts'
import type { Page } from './page-cache.ts'
import type { PlantQuery, PlantsVersion, Position } from './plant.ts'

/** A list that a request asks for. */
export interface ListRequest {
  readonly query: PlantQuery
  /** The highest number of plants; infinite for all plants. */
  readonly limit: number
  /** The tag as it was sent, for the address of the next page. */
  readonly tag: string | undefined
  readonly include: string | undefined
  readonly cursors: Cursors
}

/** The content type of JSON texts that the routes of plants write themselves. */
export const jsonType = 'application/json; charset=utf-8'

/** Sends a page. */
export function sendPage(reply: FastifyReply, { text, link }: Page): void {
  reply.header('content-type', jsonType)
  if (link !== undefined) reply.header('link', link)
  sendAtEndOfTurn(reply, text)
}

/** The version of a page if the store gives no version: a digest of its text and of the address of the next page. */
export function digestOf({ text, link = '' }: Page): PlantsVersion {
  return hash('sha256', `${text}\n${link}`, 'base64url')
}

/** Sets the `ETag` of a version, and sends a 304 if the caller has that version. @returns whether it sent the 304 */
export function sendIfNotModified(
  request: FastifyRequest,
  reply: FastifyReply,
  version: PlantsVersion,
  include: string | undefined,
): boolean {
  // Replies that include other fields have the same version, but different texts.
  const tag = include === undefined ? version : `${version}.${include}`
  reply.header('etag', `W/"${tag}"`)
  const isThere = matchesTag(request.headers['if-none-match'], tag)
  if (isThere) reply.code(304).send()
  return isThere
}

/** The `Link` header (RFC 8288) of a page that has a next page. */
export function nextLink(last: Position, { limit, tag, include, cursors }: ListRequest): string {
  return linkTo({ limit, tag, include, after: cursors.write(last) })
}

/** The `Link` header of a next page with these query parameters. */
export function linkTo(parameters: Readonly<Record<string, string | number | undefined>>): string {
  const written = Object.entries(parameters).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}=${encodeURIComponent(value)}`],
  )
  return `<${plantsPrefix}?${written.join('&')}>; rel="next"`
}
