import { isUtf8 } from 'node:buffer'
import { randomUUID } from 'node:crypto'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { ApiError } from '../errors.ts'
import { isFields, valueIn } from '../fields.ts'
import {
  type JsonBounds,
  JsonFault,
  maxJsonNameLength,
  maxJsonProperties,
  maxJsonValues,
  maxRequestFields,
  readJson,
} from '../json.ts'
import { defineJob } from '../work/job.ts'
import type { Work } from '../work/work.ts'
import { inlineBodyBytes, takeBodies, whileConnected } from './body.ts'

/** The deepest nesting of a request body. */
export const maxJsonDepth = 100

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The fields of the body whose numbers are read; without it, all. In the other fields, a number stays as it was written. */
    readonly numbersRead?: ReadonlySet<string>
  }
}

const bodyBounds = {
  depth: maxJsonDepth,
  duplicates: 'refused',
  roundedIntegers: 'refused',
  fields: maxRequestFields,
} as const

/** Requests with a lone surrogate in their body. */
const withLoneSurrogates = new WeakSet<FastifyRequest>()

/** Whether a text or a property name in the body of a request has half of a surrogate pair. */
export function hasLoneSurrogates(request: FastifyRequest): boolean {
  return withLoneSurrogates.has(request)
}

/** Requests whose body a worker has read. */
const withLargeBody = new WeakSet<FastifyRequest>()

/** Whether the body of a request is so large that workers do its work. */
export function hasLargeBody(request: FastifyRequest): boolean {
  return withLargeBody.has(request)
}

/** Opens the work of a request. The work ends when the signal aborts. */
export type WorkOf = (request: FastifyRequest, signal: AbortSignal) => Work

/**
 * Makes an instance accept JSON bodies only. A worker reads bodies of more than 128 KiB, by the same rules. Fastify refuses other
 * content types (415).
 */
export function acceptJsonOnly(app: FastifyInstance, workOf: WorkOf): void {
  app.removeAllContentTypeParsers()
  takeBodies(app, 'application/json', (request, body) => {
    // Many clients send a content type with every request, also with a DELETE without a body.
    if (body.length === 0 && request.method === 'DELETE') return undefined
    const { numbersRead } = request.routeOptions.config
    if (body.length > inlineBodyBytes) return readInPool(body, numbersRead, request, workOf)
    return parseJson(body, { ...bodyBounds, numbersRead, onLoneSurrogate: () => withLoneSurrogates.add(request) })
  })
}

/** A large body for a worker. */
interface LargeBody {
  readonly bytes: Uint8Array
  readonly numbersRead: ReadonlySet<string> | undefined
  /** The name under which a number that stays as it was written comes back: `JSON.rawJSON` objects do not leave a worker. */
  readonly numberName: string
}

/** Reads a large body. @throws ApiError 400 that says what is wrong */
export const readBodyJob = defineJob(
  import.meta.url,
  'readBodyJob',
  ({ bytes, numbersRead, numberName }: LargeBody) => {
    let isLone = false
    let kept = 0
    const value = parseJson(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), {
      ...bodyBounds,
      numbersRead,
      onLoneSurrogate: () => {
        isLone = true
      },
      keepNumber: (literal) => {
        kept += 1
        return { [numberName]: literal }
      },
    })
    return { value, isLone, kept }
  },
)

async function readInPool(
  bytes: Buffer,
  numbersRead: ReadonlySet<string> | undefined,
  request: FastifyRequest,
  workOf: WorkOf,
): Promise<unknown> {
  withLargeBody.add(request)
  const input = { bytes, numbersRead, numberName: randomUUID() }
  const read = await whileConnected(request, (signal) => workOf(request, signal).runInPool('body', readBodyJob, input))
  if (read.isLone) withLoneSurrogates.add(request)
  return read.kept === 0 ? read.value : withRawNumbers(read.value, input.numberName)
}

/** A value in which the numbers that stay as they were written are `JSON.rawJSON` objects. */
function withRawNumbers(value: unknown, numberName: string): unknown {
  if (Array.isArray(value)) return value.map((item) => withRawNumbers(item, numberName))
  if (!isFields(value)) return value
  const literal = valueIn(value, numberName)
  if (typeof literal === 'string') return JSON.rawJSON(literal)
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, withRawNumbers(each, numberName)]))
}

/**
 * Parses a JSON text by the rules of RFC 8259 for senders: UTF-8, and no property twice in an object. The text may have at most
 * 100 levels, and no fraction that would be rounded to an integer.
 * @throws ApiError 400 that says what is wrong
 */
export function parseJson(bytes: Buffer, bounds: JsonBounds = bodyBounds): unknown {
  try {
    return readJson(decode(bytes), bounds)
  } catch (fault) {
    throw refusalOf(fault)
  }
}

function decode(bytes: Buffer): string {
  if (bytes.length === 0) throw invalidJson('The body is empty. Send a JSON object.')
  if (!isUtf8(bytes)) throw invalidJson('The body is not valid UTF-8. Encode it as UTF-8.')
  return bytes.toString('utf8')
}

function refusalOf(fault: unknown): unknown {
  if (!(fault instanceof JsonFault)) return fault
  switch (fault.kind) {
    case 'duplicate':
      return new ApiError(400, 'duplicate_property', 'The body names a property twice in one object. Send each once.')
    case 'depth':
      return new ApiError(400, 'json_too_deep', `The body nests deeper than ${maxJsonDepth} levels. Flatten it.`)
    case 'count':
      return new ApiError(
        400,
        'too_complex',
        `The body has more than ${maxJsonValues} values, or an object with more than ${maxJsonProperties} properties. Send fewer.`,
      )
    case 'fields':
      return new ApiError(400, 'too_complex', `The body has more than ${maxRequestFields} fields. Send fewer.`)
    case 'length':
      return new ApiError(
        400,
        'too_complex',
        `The body has a property name of more than ${maxJsonNameLength} characters, near character ${fault.position}. Shorten it.`,
      )
    case 'number':
      return invalidJson(
        `The number near character ${fault.position} has too many digits to be stored. Send a whole number, or fewer digits.`,
      )
    case 'syntax':
      return invalidJson(`The body is not valid JSON near character ${fault.position}. Correct its syntax.`)
  }
}

function invalidJson(message: string): ApiError {
  return new ApiError(400, 'invalid_json', message)
}
