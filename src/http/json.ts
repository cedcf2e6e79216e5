import { isUtf8 } from 'node:buffer'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { ApiError } from '../errors.ts'

/** How deep a request body may nest. */
export const maximumJsonDepth = 100

const quote = 0x22
const backslash = 0x5c
const colon = 0x3a

/**
 * Makes an instance take JSON bodies and nothing else, read by `parseJson`.
 * Any other content type is left to Fastify, which refuses it (415).
 */
export function acceptJsonOnly(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  const parse = async (request: FastifyRequest, body: Buffer) =>
    // Many clients name a content type with every request: a DELETE without a body is none the worse for it.
    body.length === 0 && request.method === 'DELETE' ? undefined : parseJson(body)
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, parse)
}

/**
 * Parses a JSON text as RFC 8259 wants senders to write it: UTF-8, no property twice, nested 100 deep at most.
 * The depth is checked before anything is allocated for it.
 * @throws ApiError 400 with what is wrong
 */
export function parseJson(bytes: Buffer): unknown {
  if (bytes.length === 0) throw invalidJson('The body is empty. Send a JSON object.')
  if (!isUtf8(bytes)) throw invalidJson('The body is not valid UTF-8. Encode it as UTF-8.')
  const text = bytes.toString('utf8')
  const properties = countProperties(bytes)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    // The parser's own words quote the body, and message texts never reach a reply or a log.
    const position = cause instanceof Error ? /at position (\d+)/.exec(cause.message)?.[1] : undefined
    const place = position === undefined ? '' : ` near character ${position}`
    throw invalidJson(`The body is not valid JSON${place}. Mend its syntax.`)
  }
  if (countKeys(value) !== properties) {
    throw new ApiError(400, 'duplicate_property', 'The body names a property twice in one object. Send each once.')
  }
  return value
}

/**
 * Counts the colons outside strings, one to a property, and refuses what nests too deep.
 * In UTF-8 no byte of a longer character looks like ASCII, so bytes can be read one by one.
 */
function countProperties(bytes: Buffer): number {
  let properties = 0
  let depth = 0
  for (let index = 0; index < bytes.length; index++) {
    const byte = bytes[index]
    if (byte === quote) {
      index = endOfString(bytes, index + 1)
    } else if (byte === colon) {
      properties++
    } else if (byte === 0x7b || byte === 0x5b) {
      depth++
      if (depth > maximumJsonDepth) {
        throw new ApiError(400, 'json_too_deep', `The body nests deeper than ${maximumJsonDepth} levels. Flatten it.`)
      }
    } else if (byte === 0x7d || byte === 0x5d) {
      depth--
    }
  }
  return properties
}

/** The index of the quote that closes the string whose first byte is at `start`; the length when there is none. */
function endOfString(bytes: Buffer, start: number): number {
  let end = bytes.indexOf(quote, start)
  while (end !== -1) {
    let backslashes = 0
    while (bytes[end - 1 - backslashes] === backslash && end - 1 - backslashes >= start) backslashes++
    if (backslashes % 2 === 0) return end
    end = bytes.indexOf(quote, end + 1)
  }
  return bytes.length
}

/** How many properties a parsed value has in all: one fewer than were written for each that was written twice. */
function countKeys(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  let count = 0
  if (Array.isArray(value)) {
    for (const item of value) count += countKeys(item)
    return count
  }
  const properties: unknown[] = Object.values(value)
  for (const property of properties) count += countKeys(property)
  return count + properties.length
}

function invalidJson(message: string): ApiError {
  return new ApiError(400, 'invalid_json', message)
}
