import { field, isFields } from '../../fields.ts'
import { freeBytes } from '../../http/body.ts'
import type { HeldBytes } from '../../http/bytes-in-flight.ts'
import { JsonFault, jsonSteps } from '../../json.ts'
import type { Chunk, Completion } from '../../openai/completion.ts'
import type { Work } from '../../work.ts'
import { notUnderstood, tooLarge } from './errors.ts'
import { errorInside } from './inside-error.ts'

/**
 * The largest answer, and the largest event of one, that is taken from an upstream: each is parsed in one stretch. Text is
 * far under a megabyte; pictures in base64 have some. Bytes.
 */
export const maxAnswerBytes = 16 * 1024 ** 2

/** Bytes of JSON that are parsed at once; more are read in steps. */
export const maxBytesAtOnce = 16 * 1024

/** Properties of completions that are long, and that nobody here reads. */
const droppedProperties = new Set(['logprobs'])

/**
 * Reads the whole of an answer.
 * @param held counts its bytes twice: what is made of them takes as much again
 * @param look is shown each piece, and may throw
 * @throws ApiError 502 for more than `maximumAnswer`, 503 where there is no room for so many bytes
 */
export async function readWhole(
  pieces: AsyncIterable<Uint8Array>,
  held?: Pick<HeldBytes, 'set'>,
  look?: (piece: Uint8Array) => void,
): Promise<Buffer> {
  const all: Uint8Array[] = []
  let size = 0
  try {
    for await (const piece of pieces) {
      all.push(piece)
      size += piece.length
      if (size > maxAnswerBytes) throw tooLarge()
      held?.set(2 * size)
      look?.(piece)
    }
    const only = all.length === 1 ? all.pop() : undefined
    return only ? bufferOf(only) : Buffer.concat(all, size)
  } finally {
    // Refused or put together: they wait for no collection.
    for (const piece of all) freeBytes(piece)
  }
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
}

/**
 * Reads the JSON of a whole answer, a long one in steps, and without its log probabilities.
 * @param secrets what no error may repeat
 * @returns the value; a promise of it for a long one
 * @throws ApiError as `parseAnswer`, 502 for one of too many values, and as `Work.run`
 */
export function readAnswer(bytes: Buffer, work: Work, secrets: readonly string[]): unknown {
  const text = bytes.toString('utf8')
  return bytes.length <= maxBytesAtOnce ? parseAnswer(text, secrets) : readInSteps(text, work, secrets)
}

async function readInSteps(text: string, work: Work, secrets: readonly string[]): Promise<unknown> {
  try {
    const value = await work.run(
      'messages',
      jsonSteps(text, { depth: 100, duplicates: 'last', drops: droppedProperties }),
    )
    return checked(value, secrets)
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error
    throw error.kind === 'count' ? tooLarge() : notUnderstood()
  }
}

/**
 * Parses what an upstream sent with a 200.
 * @param secrets what no error may repeat
 * @throws ApiError 502 for what is no JSON, and as `errorInside` for an error, which is a failure all the same
 */
export function parseAnswer(text: string, secrets: readonly string[]): unknown {
  let value: unknown
  try {
    // Its names are words of the protocol, and unescaped ones are never misread (json.ts).
    value = JSON.parse(text)
  } catch {
    throw notUnderstood()
  }
  return checked(value, secrets)
}

function checked(value: unknown, secrets: readonly string[]): unknown {
  const error = errorInside(value, secrets)
  if (error) throw error
  return value
}

/** Tells whether a value is a completion, as far as this service reads one; the rest is the upstream's business. */
export function isCompletion(value: unknown): value is Completion {
  return (
    hasChoices(value) && value.choices.length > 0 && value.choices.every((choice) => isFields(field(choice, 'message')))
  )
}

/** Tells whether a value is a chunk, as far as this service reads one. */
export function isChunk(value: unknown): value is Chunk {
  return hasChoices(value)
}

function hasChoices(value: unknown): value is { choices: unknown[] } {
  return (
    typeof value === 'object' &&
    value !== null &&
    'choices' in value &&
    Array.isArray(value.choices) &&
    value.choices.every((choice) => typeof choice === 'object' && choice !== null)
  )
}
