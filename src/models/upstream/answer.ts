import { freeBytes, joinBytes } from '../../bytes.ts'
import { field, isFields } from '../../fields.ts'
import type { HeldBytes } from '../../http/bytes-in-flight.ts'
import { JsonFault, readJson } from '../../json.ts'
import type { Chunk, Completion } from '../../openai/completion.ts'
import type { Work } from '../../work.ts'
import { invalidAnswer, tooLarge } from './errors.ts'
import { errorInside } from './inside-error.ts'

/**
 * The most bytes of an upstream's whole answer, and of one event of a stream. An event is parsed in one synchronous call. Answers
 * of text have far less than a megabyte, and answers with pictures in base64 have a few megabytes.
 */
export const maxAnswerBytes = 16 * 1024 ** 2

/** The copies of a whole answer that are in memory together: the bytes, their text, and the value. */
const copies = 3

/** A whole answer of more bytes is read with bounds. Before an event of more bytes is parsed, the cost of parsing is checked. */
export const maxBytesAtOnce = 16 * 1024

/** Long properties of completions that this service never reads. */
const droppedProperties = new Set(['logprobs'])

/**
 * Reads a whole answer.
 * @param work joins the pieces in steps
 * @param held counts each byte three times: the bytes, their text, and the value that is parsed from the text
 * @param onPiece called with each piece; may throw
 * @throws ApiError 502 for more than `maxAnswerBytes`, 503 if there is no room for the bytes; errors of `pieces`, `work` and `onPiece`
 */
export async function readWhole(
  pieces: AsyncIterable<Buffer>,
  work: Work,
  held?: Pick<HeldBytes, 'setCopies'>,
  onPiece?: (piece: Buffer) => void,
): Promise<Buffer> {
  const all: Buffer[] = []
  let size = 0
  try {
    for await (const piece of pieces) {
      all.push(piece)
      size += piece.length
      if (size > maxAnswerBytes) throw tooLarge()
      held?.setCopies(size, copies)
      onPiece?.(piece)
    }
    const only = all.length === 1 ? all.pop() : undefined
    return only ?? (await work.run('messages', joinBytes(all)))
  } finally {
    // By now these pieces are copied or refused. Their memory is freed at once, and not by a later garbage collection.
    for (const piece of all) freeBytes(piece)
  }
}

/**
 * Parses the JSON of a whole answer. A long answer is read with bounds, and without its log probabilities.
 * @param secrets texts that no error may repeat
 * @param isKept whether the caller still needs the bytes; otherwise the memory of a long answer is freed
 * @throws ApiError 502 for a body that is not JSON, and for a long body with too many or too deeply nested values; the error in
 *   the body (`errorInside`)
 */
export function readAnswer(bytes: Buffer, secrets: readonly string[], isKept: boolean): unknown {
  const text = bytes.toString('utf8')
  if (bytes.length <= maxBytesAtOnce) return parseAnswer(text, secrets)
  if (!isKept) freeBytes(bytes)
  return readLong(text, secrets)
}

function readLong(text: string, secrets: readonly string[]): unknown {
  try {
    return checked(readJson(text, { depth: 100, duplicates: 'last', drops: droppedProperties }), secrets)
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error
    throw error.kind === 'count' || error.kind === 'length' ? tooLarge() : invalidAnswer()
  }
}

/**
 * Parses the body of an upstream's 200.
 * @param secrets texts that no error may repeat
 * @throws ApiError 502 for a body that is not JSON; the error in the body (`errorInside`)
 */
export function parseAnswer(text: string, secrets: readonly string[]): unknown {
  let value: unknown
  try {
    // V8's JSON.parse can misread escaped property names (`src/json.ts`). The names of this protocol are not escaped.
    value = JSON.parse(text)
  } catch {
    throw invalidAnswer()
  }
  return checked(value, secrets)
}

/** Returns a parsed answer. @throws the error in the answer (`errorInside`) */
export function checked(value: unknown, secrets: readonly string[]): unknown {
  const error = errorInside(value, secrets)
  if (error) throw error
  return value
}

/** Whether a value is a completion. Only the fields that this service reads are checked. */
export function isCompletion(value: unknown): value is Completion {
  return (
    hasChoices(value) && value.choices.length > 0 && value.choices.every((choice) => isFields(field(choice, 'message')))
  )
}

/** Whether a value is a chunk. Only the fields that this service reads are checked. */
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
