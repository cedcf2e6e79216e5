import type { TObject } from '@sinclair/typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { isFields } from '../fields.ts'

/**
 * The most characters of the names in the reply header `x-ignored-params`. Clients refuse headers beyond some 16 KiB in total.
 */
const maxHeaderLength = 4096

/** The value of the reply header `x-ignored-params`: the names, and `+N` for N names that do not fit. */
export function ignoredHeader(names: readonly string[]): string {
  const written: string[] = []
  let left = maxHeaderLength
  for (const name of names) {
    // A name may have megabytes. Encoding never makes a name shorter, so a name that is already too long is not encoded.
    if (name.length >= left) break
    const encoded = encodeURIComponent(name.toWellFormed())
    left -= encoded.length + 1
    if (left < 0) break
    written.push(encoded)
  }
  const more = names.length - written.length
  return [...written, ...(more > 0 ? [`+${more}`] : [])].join(',')
}

/** The parameters and fields that a route knows. */
interface Known {
  readonly query?: TObject
  readonly body?: TObject
}

/**
 * Sets the reply header `x-ignored-params` to the query parameters and body fields that a route does not know. In a body that is an
 * array, these are the fields of its items.
 * @param more names of other things that are ignored, such as columns of a file
 */
export function setIgnoredHeader(
  { query, body }: FastifyRequest,
  reply: FastifyReply,
  known: Known = {},
  more: readonly string[] = [],
): void {
  const names = [...unknownIn(query, known.query), ...unknownIn(body, known.body), ...more]
  if (names.length > 0) reply.header('x-ignored-params', ignoredHeader([...new Set(names)]))
}

function unknownIn(sent: unknown, known: TObject | undefined): readonly string[] {
  if (Array.isArray(sent)) return sent.flatMap((item) => unknownIn(item, known))
  if (!isFields(sent) || Buffer.isBuffer(sent)) return []
  return Object.keys(sent).filter((name) => !known || !Object.hasOwn(known.properties, name))
}
