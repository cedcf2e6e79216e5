import type { TObject } from '@sinclair/typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { isFields } from '../fields.ts'

/** How long the reply header `x-ignored-params` may be: clients refuse headers beyond some 16 KiB in all. */
const maxHeaderLength = 4096

/** Names as the reply header `x-ignored-params` carries them; where there are too many, how many more there are. */
export function ignoredHeader(names: readonly string[]): string {
  const written: string[] = []
  let left = maxHeaderLength
  for (const name of names) {
    // None gets shorter: one that is too long already need not be written, whatever a body of megabytes calls its fields.
    if (name.length >= left) break
    const encoded = encodeURIComponent(name.toWellFormed())
    left -= encoded.length + 1
    if (left < 0) break
    written.push(encoded)
  }
  const more = names.length - written.length
  return [...written, ...(more > 0 ? [`+${more}`] : [])].join(',')
}

/** What a route knows of what callers send. */
interface Known {
  readonly query?: TObject
  readonly body?: TObject
}

/** Names in the reply header `x-ignored-params` the query parameters and body fields that a route does not know. */
export function setIgnoredHeader({ query, body }: FastifyRequest, reply: FastifyReply, known: Known = {}): void {
  const names = [...unknownIn(query, known.query), ...unknownIn(body, known.body)]
  if (names.length > 0) reply.header('x-ignored-params', ignoredHeader([...new Set(names)]))
}

function unknownIn(sent: unknown, known: TObject | undefined): readonly string[] {
  if (!isFields(sent)) return []
  return Object.keys(sent).filter((name) => !known || !Object.hasOwn(known.properties, name))
}
