import { field, isFields } from '../../fields.ts'
import { freeBytes } from '../../http/body.ts'
import type { HeldBytes } from '../../http/bytes-in-flight.ts'
import { JsonFault, jsonSteps } from '../../json.ts'
import type { Chunk, Completion } from '../../openai/completion.ts'
import type { Work } from '../../work.ts'
import { invalidAnswer, tooLarge } from './errors.ts'
import { errorInside } from './inside-error.ts'

/**
 * Bytes of the largest answer, and of the largest event, that is taken from an upstream: an event is parsed in one synchronous call.
 * Text is far below a megabyte; pictures in base64 have a few.
 */
export const maxAnswerBytes = 16 * 1024 ** 2

/** Bytes of JSON that are parsed in one synchronous call; longer JSON is parsed in steps. */
export const maxBytesAtOnce = 16 * 1024

/** Long properties of completions that this service never reads. */
const droppedProperties = new Set(['logprobs'])

/**
 * Reads a whole answer.
 * @param held counts its bytes twice, because the value parsed from them takes as much again
 * @param onPiece called with each piece; may throw
 * @throws ApiError 502 for more than `maxAnswerBytes`, 503 where there is no room for the bytes
 */
export async function readWhole(
  pieces: AsyncIterable<Uint8Array>,
  held?: Pick<HeldBytes, 'set'>,
  onPiece?: (piece: Uint8Array) => void,
): Promise<Buffer> {
  const all: Uint8Array[] = []
  let size = 0
  try {
    for await (const piece of pieces) {
      all.push(piece)
      size += piece.length
      if (size > maxAnswerBytes) throw tooLarge()
      held?.set(2 * size)
      onPiece?.(piece)
    }
    const only = all.length === 1 ? all.pop() : undefined
    return only ? bufferOf(only) : Buffer.concat(all, size)
  } finally {
    // The pieces are copied or refused by now: their memory is freed without waiting for a garbage collection.
    for (const piece of all) freeBytes(piece)
  }
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
}

/**
 * Parses the JSON of a whole answer; a long one in steps, and without its log probabilities.
 * @param secrets texts that no error may repeat
 * @returns the value, or a promise of it for a long answer
 * @throws ApiError as `parseAnswer`, 502 for too many values, and as `Work.run`
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
    throw error.kind === 'count' ? tooLarge() : invalidAnswer()
  }
}

/**
 * Parses the body of an upstream's 200.
 * @param secrets texts that no error may repeat
 * @throws ApiError 502 for a body that is not JSON, and as `errorInside` for an error in the body
 */
export function parseAnswer(text: string, secrets: readonly string[]): unknown {
  let value: unknown
  try {
    // The property names are words of the protocol; without escapes they are never misread (json.ts).
    value = JSON.parse(text)
  } catch {
    throw invalidAnswer()
  }
  return checked(value, secrets)
}

function checked(value: unknown, secrets: readonly string[]): unknown {
  const error = errorInside(value, secrets)
  if (error) throw error
  return value
}

/** Whether a value is a completion, as far as this service reads it. */
export function isCompletion(value: unknown): value is Completion {
  return (
    hasChoices(value) && value.choices.length > 0 && value.choices.every((choice) => isFields(field(choice, 'message')))
  )
}

/** Whether a value is a chunk, as far as this service reads it. */
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
