import { isUtf8 } from 'node:buffer'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { freeBytes } from '../bytes.ts'
import { ApiError } from '../errors.ts'
import {
  type JsonBounds,
  JsonFault,
  maxJsonNameLength,
  maxJsonProperties,
  maxJsonValues,
  maxRequestFields,
  readJson,
} from '../json.ts'
import type { Steps, Work } from '../work.ts'
import { takeBodies } from './body.ts'
import { whileConnected } from './while-connected.ts'

/** The deepest nesting of a request body. */
export const maxJsonDepth = 100

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The fields of the body in which a number that a double would round stays as it was written, because nobody here reads it. */
    readonly keepsNumbersOf?: (field: string) => boolean
  }
}

const bodyBounds = {
  depth: maxJsonDepth,
  duplicates: 'refused',
  roundedIntegers: 'refused',
  fields: maxRequestFields,
} as const

/** The most bytes of a body that is parsed in one step, in under a millisecond. */
const smallBodyBytes = 16 * 1024

/** Requests with a lone surrogate in their body. */
const withLoneSurrogates = new WeakSet<FastifyRequest>()

/** Whether a text or a property name in the body of a request has half of a surrogate pair. */
export function hasLoneSurrogates(request: FastifyRequest): boolean {
  return withLoneSurrogates.has(request)
}

/** Opens the work of a request. The work ends when the signal aborts. */
export type WorkOf = (request: FastifyRequest, signal: AbortSignal) => Work

/**
 * Makes an instance accept JSON bodies only. `parseJson` reads small bodies. Large bodies are read in steps, by the same rules.
 * Fastify refuses other content types (415).
 */
export function acceptJsonOnly(app: FastifyInstance, workOf: WorkOf): void {
  app.removeAllContentTypeParsers()
  takeBodies(app, 'application/json', (request, body) => {
    // Many clients send a content type with every request, also with a DELETE without a body.
    if (body.length === 0 && request.method === 'DELETE') return undefined
    if (body.length <= smallBodyBytes) return parseJson(body, boundsFor(request))
    request.held?.setWorkedOn(body.length)
    return parseInSteps(body, request, workOf)
  })
}

function boundsFor(request: FastifyRequest): JsonBounds {
  const { keepsNumbersOf } = request.routeOptions.config
  return { ...bodyBounds, keepsNumbersOf, onLoneSurrogate: () => withLoneSurrogates.add(request) }
}

async function parseInSteps(body: Buffer, request: FastifyRequest, workOf: WorkOf): Promise<unknown> {
  try {
    const steps = bodySteps(body, boundsFor(request))
    return await whileConnected(request, (signal) => workOf(request, signal).run('body', steps))
  } catch (fault) {
    throw refusalOf(fault)
  } finally {
    freeBytes(body)
  }
}

/** Decodes and parses a body. The bytes are freed when they are decoded. */
function* bodySteps(body: Buffer, bounds: JsonBounds): Steps<unknown> {
  const text = decode(body)
  yield body.length >> 3
  freeBytes(body)
  return readJson(text, bounds)
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
