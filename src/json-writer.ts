import { freeBytes, joinBytes } from './bytes.ts'
import { type Fields, isFields } from './fields.ts'
import { endOfPiece } from './text.ts'
import type { Steps } from './work.ts'

/** The bounds of a JSON text. Each function throws an error if its bound is exceeded. */
export interface JsonWriterBounds {
  /** Called with the level of each object and array. The outermost level is 1. */
  readonly checkDepth?: (depth: number) => void
  /** Called after each piece, with the number of bytes written so far. */
  readonly checkBytes?: (bytes: number) => void
  /** Whether to keep -0 and infinite numbers (as 1e999). `JSON.stringify` would write 0 and null. */
  readonly keepsNumbers?: boolean
}

/** The most characters that one step writes, which takes about 0.3 ms. */
const maxPieceLength = 64 * 1024

/**
 * Writes a value as `JSON.stringify` does, but in steps: in one step, 15 MB would block the event loop for 25 ms.
 * @throws the errors that the functions of `bounds` throw
 */
export function* jsonBytes(value: object, bounds: JsonWriterBounds = {}): Steps<Buffer> {
  const writer = new Writer(bounds)
  yield* writer.write(value, 1)
  return yield* writer.end()
}

/**
 * Writes a reply as JSON. `JSON.stringify` writes a short reply in one step, because several steps would cost a receipt 25 % more
 * CPU time.
 */
export function* jsonReply(value: object): Steps<string | Buffer> {
  return isShort(value) ? JSON.stringify(value) : yield* jsonBytes(value)
}

/** Whether all texts, names and scalars in a value together have at most `maxLength` characters, not counting escapes. */
export function isShort(value: object, maxLength = maxPieceLength): boolean {
  return roomAfter(value, maxLength) >= 0
}

/** The room for characters that is left after a value; negative if the value is too long. */
function roomAfter(value: unknown, room: number): number {
  if (typeof value === 'string') return room - value.length
  let left = room - lengthOfScalar
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length && left >= 0; index++) left = roomAfter(value[index], left)
  } else if (isFields(value)) {
    for (const name in value) {
      if (left < 0) return left
      left = roomAfter(value[name], left - name.length)
    }
  }
  return left
}

/** The approximate length of a number, a boolean or null, or of the brackets of a container. */
const lengthOfScalar = 4

class Writer {
  readonly #bounds: JsonWriterBounds
  readonly #pieces: Buffer[] = []
  #length = 0
  #text = ''

  constructor(bounds: JsonWriterBounds) {
    this.#bounds = bounds
  }

  *end(): Steps<Buffer> {
    yield* this.#encode()
    const whole = yield* joinBytes(this.#pieces)
    for (const piece of this.#pieces) freeBytes(piece)
    return whole
  }

  *write(value: object, depth: number): Steps<void> {
    this.#bounds.checkDepth?.(depth)
    if (Array.isArray(value)) yield* this.#writeArray(value, depth)
    else if (isFields(value)) yield* this.#writeFields(value, depth)
    if (this.#text.length > maxPieceLength) yield* this.#encode()
  }

  *#writeFields(fields: Fields, depth: number): Steps<void> {
    let before = '{'
    for (const name of Object.keys(fields)) {
      const value = fields[name]
      if (value === undefined) continue
      this.#text += before
      before = ','
      const nameSteps = this.#add(name, depth)
      if (nameSteps) yield* nameSteps
      this.#text += ':'
      const steps = this.#add(value, depth)
      if (steps) yield* steps
    }
    this.#text += before === '{' ? '{}' : '}'
  }

  *#writeArray(items: readonly unknown[], depth: number): Steps<void> {
    let before = '['
    for (const item of items) {
      this.#text += before
      before = ','
      const steps = this.#add(item, depth)
      if (steps) yield* steps
    }
    this.#text += before === '[' ? '[]' : ']'
  }

  /** Adds a short value to the collected text. @returns the steps that are left to do; undefined for most values */
  #add(value: unknown, depth: number): Steps<void> | undefined {
    if (typeof value === 'object' && value !== null && !JSON.isRawJSON(value)) return this.write(value, depth + 1)
    if (typeof value === 'string' && value.length > maxPieceLength) return this.#writeLongText(value)
    this.#text += this.#bounds.keepsNumbers ? writtenScalar(value) : (JSON.stringify(value) ?? 'null')
    return this.#text.length > maxPieceLength ? this.#encode() : undefined
  }

  *#writeLongText(text: string): Steps<void> {
    this.#text += '"'
    for (let start = 0, end = 0; start < text.length; start = end) {
      end = endOfPiece(text, start, maxPieceLength)
      this.#text += JSON.stringify(text.slice(start, end)).slice(1, -1)
      yield* this.#encode()
    }
    this.#text += '"'
  }

  /** Makes a piece of the collected text. */
  *#encode(): Steps<void> {
    const piece = Buffer.from(this.#text)
    this.#text = ''
    this.#length += piece.length
    this.#bounds.checkBytes?.(this.#length)
    this.#pieces.push(piece)
    yield piece.length
  }
}

/** Like `JSON.stringify`, but keeps -0 and infinite numbers. */
function writtenScalar(value: unknown): string {
  if (Object.is(value, -0)) return '-0'
  if (value === Number.POSITIVE_INFINITY) return '1e999'
  if (value === Number.NEGATIVE_INFINITY) return '-1e999'
  return JSON.stringify(value) ?? 'null'
}
