import { setImmediate } from 'node:timers/promises'
import { type HeldBytes, smallBytes } from '../../http/bytes-in-flight.ts'
import { JsonFault, readJson } from '../../json.ts'
import { tooLarge } from './errors.ts'

/**
 * The most bytes of an upstream's whole answer, and of one event of a stream. Each is parsed in one synchronous call. Answers of
 * text have far less than a megabyte, and answers with pictures in base64 have a few megabytes.
 */
export const maxAnswerBytes = 16 * 1024 ** 2

/** A longer text is read with a bound of values. A text of this length cannot have too many. */
const lengthWithoutBound = 16 * 1024

/** Long properties of completions that this service never reads. */
const droppedProperties = new Set(['logprobs'])

/** A text in which a number may have more digits than a double, also in a string. */
const longNumber = /\d[\d.]{15}/
const noNames: ReadonlySet<string> = new Set()

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
 * The value of an upstream's JSON text; undefined for another text, and for a long one that is nested too deeply. A number that a
 * double would round stays as it was written. A long text with too many values is read without its log probabilities.
 * @throws ApiError 502 for more than `maxJsonValues` values
 */
export function jsonOf(text: string): unknown {
  try {
    // V8's JSON.parse can misread escaped property names (`src/json.ts`). The names of this protocol are not escaped.
    if (text.length <= lengthWithoutBound && !longNumber.test(text)) return JSON.parse(text)
    return readLong(text)
  } catch (error) {
    if (!isTooMuch(error)) return undefined
  }
  try {
    return readLong(text, droppedProperties)
  } catch (error) {
    if (isTooMuch(error)) throw tooLarge()
    return undefined
  }
}

function readLong(text: string, drops?: ReadonlySet<string>): unknown {
  return readJson(text, { depth: 100, duplicates: 'last', numbersRead: noNames, ...(drops && { drops }) })
}

function isTooMuch(error: unknown): boolean {
  return error instanceof JsonFault && (error.kind === 'count' || error.kind === 'length')
}

/** The bytes of an answer that wait in memory. They are counted only if they are many, because most answers are small. */
export class HeldAnswer implements Disposable {
  readonly #open: (() => HeldBytes | undefined) | undefined
  #held: HeldBytes | undefined

  /** @param open opens a count of bytes; undefined to count none */
  constructor(open: (() => HeldBytes | undefined) | undefined) {
    this.#open = open
  }

  /** @param bytes all bytes that wait now @throws ApiError 503 when too many bytes are in flight */
  set(bytes: number): void {
    if (bytes > smallBytes) this.#held ??= this.#open?.()
    this.#held?.set(bytes)
  }

  [Symbol.dispose](): void {
    this.#held?.release()
  }
}

/** A call or a whole answer of more bytes has a turn of its own. */
export const smallAnswerBytes = 256 * 1024
/**
 * A piece of a stream of more bytes has a turn of its own: more than one read of a socket gives. Most events pass unparsed. With
 * 16 KiB, a stream of 100 events that arrives at once would cost 15 % more CPU time.
 */
export const smallPieceBytes = 64 * 1024
/** The same for a stream that a package reads: it parses every event. */
export const packagePieceBytes = 16 * 1024

let last: Promise<unknown> = Promise.resolve()

/**
 * Large answers that arrive together must not hold other requests together. So each has a turn of the event loop of its own.
 * @returns a promise that resolves in the turn; undefined for at most `maxBytes`
 */
export function ownTurn(bytes: number, maxBytes: number): Promise<void> | undefined {
  if (bytes <= maxBytes) return undefined
  const turn = last.then(() => setImmediate())
  last = turn
  return turn
}
