import { Headers, Response } from 'undici'
import type { HeldBytes } from '../../http/bytes-in-flight.ts'
import { maxAnswerBytes, readWhole } from '../upstream/answer.ts'
import { readStart, tooLarge } from '../upstream/errors.ts'
import { HeldAnswer } from '../upstream/held-answer.ts'
import { ownTurn, smallAnswerBytes, smallPieceBytes } from '../upstream/own-turn.ts'
import type { UpstreamAnswer } from '../upstream/streamless-response.ts'

/** The most bytes of a streamed answer. */
const maxStreamBytes = 64 * 1024 ** 2
/** The most events of a streamed answer. The longest answers have 128,000 tokens. A package takes 13 µs for each event. */
const maxEvents = 131_072
/**
 * The most JSON values of a whole answer or of one event, which a package reads in one synchronous call. An array or an object
 * counts as five more, because packages check its shape: up to 5 µs for each value counted here, about 120 ms in all. The longest
 * tool call that a model can write has fewer values, because a JSON string of any length is one value.
 */
const maxValues = 25_000
const valuesOfContainer = 5

/** The context of a package's call that its `fetch` needs. */
export interface CallContext {
  readonly isStream: boolean
  /** Opens a count of bytes, which ends with the request if the answer is a stream. */
  readonly openHeld: (() => HeldBytes | undefined) | undefined
  /** Called when the upstream has the whole request. */
  readonly onSent?: () => void
}

/**
 * Bounds an upstream's answer before the package gets the answer, because packages parse a whole answer, or an event of a stream,
 * in one synchronous call. Only the start of an error's body is read.
 * @throws ApiError 502 for an answer over a bound, 503 if there is no room for its bytes. A stream fails with these errors later,
 *   while it is read
 */
export async function boundedAnswer(answer: UpstreamAnswer, { isStream, openHeld }: CallContext): Promise<Response> {
  const { status } = answer
  const headers = headersOf(answer)
  const as = (bounded: string | Buffer | ReadableStream | null) => new Response(bounded, { status, headers })
  if (statusesWithoutBody.has(status)) {
    answer.drain()
    return as(null)
  }
  if (status >= 300) return as(await readStart(answer))
  if (isStream) return as(ReadableStream.from(boundedEvents(answer, openHeld)))
  const values = new ValueCounter(false)
  const bytes = await readWhole(answer, openHeld, (piece) => values.add(piece))
  await ownTurn(bytes.length, smallAnswerBytes)
  return as(bytes)
}

/** Statuses with which a `Response` has no body. */
const statusesWithoutBody: ReadonlySet<number> = new Set([204, 205, 304])

/** The headers of an answer, without the headers that describe the bytes on the network. The answer is already decompressed. */
function headersOf({ headers }: UpstreamAnswer): Headers {
  const kept = new Headers()
  for (const [name, value = []] of Object.entries(headers)) {
    for (const each of [value].flat()) kept.append(name, each)
  }
  kept.delete('content-encoding')
  kept.delete('content-length')
  return kept
}

/**
 * Passes an answer on in small pieces, because a package reads a piece with all its events in one turn of the event loop.
 * @throws ApiError 502 for too large an event, too many events, or too long a stream; 503 if there is no room for an event
 */
async function* boundedEvents(
  pieces: AsyncIterable<Uint8Array>,
  openHeld: CallContext['openHeld'],
): AsyncIterable<Uint8Array> {
  const values = new ValueCounter(true)
  const held = new HeldAnswer(openHeld)
  let size = 0
  for await (const piece of pieces) {
    size += piece.length
    values.add(piece)
    if (size > maxStreamBytes || values.events > maxEvents) throw tooLarge()
    held.set(values.bytes)
    for (let start = 0; start < piece.length; start += smallPieceBytes) {
      await ownTurn(piece.length, smallPieceBytes)
      yield piece.subarray(start, start + smallPieceBytes)
    }
  }
}

/** The kinds of bytes that matter to JSON and to event streams; all other bytes are plain. */
const plain = 0
const quote = 1
const backslash = 2
const opening = 3
const comma = 4
const carriageReturn = 5
const lineFeed = 6
const kinds = new Uint8Array(256)
kinds[0x22] = quote
kinds[0x5c] = backslash
kinds[0x7b] = kinds[0x5b] = opening
kinds[0x2c] = comma
kinds[0x0d] = carriageReturn
kinds[0x0a] = lineFeed

/**
 * Counts JSON values while their bytes arrive. In an event stream some lines are not JSON, such as `event: {"`. Such a line makes
 * only its own count wrong, because a line break ends a string here: no JSON string contains one.
 */
export class ValueCounter {
  /** Bytes and values so far; in a stream, those of the event that has not ended. */
  bytes = 0
  values = 0
  /** Events that have ended. */
  events = 0
  readonly #isStream: boolean
  #isInString = false
  #isEscaped = false
  /** The kind of the last byte. */
  #last = lineFeed

  /** @param isStream whether a blank line ends an event */
  constructor(isStream: boolean) {
    this.#isStream = isStream
  }

  /** @throws ApiError 502 for too many bytes or values */
  add(piece: Uint8Array): void {
    this.bytes += piece.length
    for (let at = 0; at < piece.length; at++) {
      const kind = kinds[piece[at] ?? 0] ?? plain
      if (kind >= carriageReturn) this.#endLine(kind, piece.length - at - 1)
      else if (this.#isEscaped) this.#isEscaped = false
      else if (kind !== plain) this.#count(kind)
      this.#last = kind
    }
    this.#check()
  }

  #count(kind: number): void {
    if (kind === quote) this.#isInString = !this.#isInString
    else if (this.#isInString) this.#isEscaped = kind === backslash
    else if (kind !== backslash) this.values += kind === opening ? valuesOfContainer : 1
  }

  /** Handles the bytes `\r` and `\n`; `\r\n` is one line break. @param left the bytes of the piece after this one */
  #endLine(kind: number, left: number): void {
    this.#isInString = false
    this.#isEscaped = false
    const isBlank = kind === carriageReturn ? this.#last >= carriageReturn : this.#last === lineFeed
    if (!isBlank || !this.#isStream) return
    this.bytes -= left
    this.#check()
    this.bytes = left
    this.values = 0
    this.events++
  }

  #check(): void {
    if (this.bytes > maxAnswerBytes || this.values > maxValues) throw tooLarge()
  }
}
