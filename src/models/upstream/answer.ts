import { field, isFields } from '../../fields.ts'
import type { HeldBytes } from '../../http/bytes-in-flight.ts'
import { JsonFault, readJson } from '../../json.ts'
import type { Chunk, Completion } from '../../openai/completion.ts'
import { invalidAnswer, tooLarge } from './errors.ts'
import { HeldAnswer } from './held-answer.ts'
import { errorInside } from './inside-error.ts'

/**
 * The most bytes of an upstream's whole answer, and of one event of a stream. Each is parsed in one synchronous call. Answers of
 * text have far less than a megabyte, and answers with pictures in base64 have a few megabytes.
 */
export const maxAnswerBytes = 16 * 1024 ** 2

/** A longer text is read with a bound of values. A text of this length cannot have too many. */
const lengthWithoutBound = 16 * 1024

/** Long properties of completions that this service never reads. */
const droppedProperties = new Set(['logprobs'])

/**
 * Reads a whole answer. While it arrives, its bytes count as in flight.
 * @param openHeld opens a count of bytes
 * @param onPiece called with each piece; may throw
 * @throws ApiError 502 for more than `maxAnswerBytes`, 503 if there is no room for the bytes; errors of `pieces` and `onPiece`
 */
export async function readWhole(
  pieces: AsyncIterable<Buffer>,
  openHeld?: () => HeldBytes | undefined,
  onPiece?: (piece: Buffer) => void,
): Promise<Buffer> {
  const all: Buffer[] = []
  let size = 0
  using held = new HeldAnswer(openHeld)
  for await (const piece of pieces) {
    all.push(piece)
    size += piece.length
    if (size > maxAnswerBytes) throw tooLarge()
    held.set(size)
    onPiece?.(piece)
  }
  const [first] = all
  return first && all.length === 1 ? first : Buffer.concat(all)
}

/**
 * Parses the JSON of a whole answer, a long one without its log probabilities.
 * @param secrets texts that no error may repeat
 * @throws ApiError 502 for a body that is not JSON or has too many values; the error in the body (`errorInside`)
 */
export function readAnswer(bytes: Buffer, secrets: readonly string[]): unknown {
  const value = jsonOf(bytes.toString('utf8'), droppedProperties)
  if (value === undefined) throw invalidAnswer()
  return checked(value, secrets)
}

/**
 * The value of an upstream's JSON text; undefined for another text, and for a long one that is nested too deeply.
 * @param drops names of properties that are left out of a long text
 * @throws ApiError 502 for more than `maxJsonValues` values
 */
export function jsonOf(text: string, drops?: ReadonlySet<string>): unknown {
  try {
    // V8's JSON.parse can misread escaped property names (`src/json.ts`). The names of this protocol are not escaped.
    if (text.length <= lengthWithoutBound) return JSON.parse(text)
    return readJson(text, { depth: 100, duplicates: 'last', ...(drops && { drops }) })
  } catch (error) {
    if (error instanceof JsonFault && (error.kind === 'count' || error.kind === 'length')) throw tooLarge()
    return undefined
  }
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
