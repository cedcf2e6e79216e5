import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { Headers, Response } from 'undici'
import type { Fields } from '../../fields.ts'
import type { HeldBytes } from '../../http/bytes-in-flight.ts'
import {
  HeldAnswer,
  jsonOf,
  maxAnswerBytes,
  ownTurn,
  packagePieceBytes,
  readWhole,
  smallAnswerBytes,
} from '../upstream/answer.ts'
import { errorInside, invalidAnswer, readStart, tooLarge } from '../upstream/errors.ts'
import type { UpstreamAnswer } from '../upstream/streamless-response.ts'
import type { AnswerEvents, ProviderRules } from './provider-rules.ts'

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
const valuesOfContainer = 6

/** The context of a package's call that its `fetch` needs. */
export interface CallContext {
  readonly isStream: boolean
  /** Opens a count of bytes, which ends with the request if the answer is a stream. */
  readonly openHeld: (() => HeldBytes | undefined) | undefined
  /** The provider's rules for answers. */
  readonly answers?: ProviderRules['answers'] | undefined
  /** Texts that no error may repeat. */
  readonly secrets?: readonly string[]
  /** Called when the upstream has the whole request. */
  readonly onSent?: () => void
}

/**
 * Bounds an upstream's answer before the package gets the answer, because packages parse a whole answer, or an event of a stream,
 * in one synchronous call. If the provider has rules for answers, the package gets what they make of it. Only the start of an
 * error's body is read.
 * @throws ApiError 502 for an answer over a bound, 503 if there is no room for its bytes, and the error in a whole answer. A stream
 *   fails with these errors later, while it is read
 */
export async function boundedAnswer(answer: UpstreamAnswer, context: CallContext): Promise<Response> {
  const { status } = answer
  const headers = headersOf(answer)
  const as = (bounded: string | Buffer | ReadableStream | null) => new Response(bounded, { status, headers })
  if (statusesWithoutBody.has(status)) {
    answer.drain()
    return as(null)
  }
  if (status >= 300) return as(await readStart(answer))
  if (context.answers) headers.set('content-type', context.isStream ? 'text/event-stream' : 'application/json')
  if (context.isStream) return as(ReadableStream.from(boundedStream(answer, context)))
  const bytes = await readWhole(answer, context.openHeld)
  await ownTurn(bytes.length, smallAnswerBytes)
  return as(wholeAnswer(bytes, context))
}

function wholeAnswer(bytes: Buffer, { answers, secrets = [] }: CallContext): Buffer | string {
  const text = bytes.toString('utf8')
  const value = boundedJson(text)
  const reported = errorInside(value, secrets)
  if (reported) throw reported
  if (!answers) return bytes
  const texts: string[] = []
  if (value === undefined) createParser({ onEvent: ({ data }) => texts.push(data) }).feed(`${text}\n\n`)
  const reader = answers.open()
  const events = value === undefined ? texts.flatMap((data) => reader.next(boundedJson(data))) : reader.next(value)
  const failed = events.map((event) => errorInside(event, secrets)).find((error) => error !== undefined)
  if (failed) throw failed
  if (events.length === 0) throw invalidAnswer()
  return JSON.stringify(answers.join([...events, ...reader.end()]))
}

/** Reads JSON; undefined for another text. @throws ApiError 502 for too many values */
function boundedJson(text: string): unknown {
  const value = jsonOf(text)
  if (valuesIn(value) > maxValues) throw tooLarge()
  return value
}

/** The values in parsed JSON, weighted. */
function valuesIn(value: unknown): number {
  let count = 0
  const found: unknown[] = [value]
  for (const each of found) {
    const isContainer = typeof each === 'object' && each !== null
    count += isContainer ? valuesOfContainer : 1
    if (isContainer) for (const item of Object.values(each)) found.push(item)
  }
  return count
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
 * Passes a stream on in small pieces, because a package reads a piece with all its events in one turn of the event loop.
 * @throws ApiError 502 for too large an event, too many events, or too long a stream; 503 if there is no room for an event
 */
async function* boundedStream(answer: UpstreamAnswer, context: CallContext): AsyncIterable<Buffer> {
  const isEvents = /^text\/event-stream/i.test(answer.headers['content-type'] ?? '')
  const reader = new StreamReader(context, isEvents)
  using held = new HeldAnswer(context.openHeld)
  for await (const piece of answer) {
    yield* inTurns(reader.read(piece))
    held.set(reader.unfinishedBytes)
  }
  yield* inTurns(reader.end())
}

async function* inTurns(bytes: Buffer): AsyncIterable<Buffer> {
  for (let start = 0; start < bytes.length; start += packagePieceBytes) {
    await ownTurn(bytes.length, packagePieceBytes)
    yield bytes.subarray(start, start + packagePieceBytes)
  }
}

/** Reads the pieces of a streamed answer, server-sent events or JSON, and gives the bytes for the package. */
class StreamReader {
  /** Bytes since the last event. */
  unfinishedBytes = 0
  readonly #answers: AnswerEvents | undefined
  readonly #decoder = new TextDecoder()
  readonly #parser = createParser({ onEvent: (event) => this.#parsed.push(event) })
  #parsed: EventSourceMessage[] = []
  #form: 'unknown' | 'events' | 'json' | 'other'
  #json = ''
  #size = 0
  #count = 0

  /** @param isEvents whether the answer's content type is that of events. Other answers pass unread if there are no rules */
  constructor({ answers }: CallContext, isEvents: boolean) {
    this.#answers = answers?.open()
    this.#form = this.#answers ? 'unknown' : isEvents ? 'events' : 'other'
  }

  /** @throws ApiError 502 for too much, and for an event that is not JSON */
  read(piece: Buffer): Buffer {
    this.#size += piece.length
    this.unfinishedBytes += piece.length
    if (this.#size > (this.#form === 'other' ? maxAnswerBytes : maxStreamBytes)) throw tooLarge()
    if (this.#form === 'other') return piece
    const text = this.#decoder.decode(piece, { stream: true })
    if (this.#form === 'unknown' && /\S/.test(text)) this.#form = /^\s*[[{]/.test(text) ? 'json' : 'events'
    if (this.#form === 'json') this.#json += text
    else this.#parser.feed(text)
    if (this.#parsed.length > 0) this.unfinishedBytes = 0
    if (this.unfinishedBytes > maxAnswerBytes) throw tooLarge()
    return this.#written(false)
  }

  /** The bytes for the end of the answer. An event that is cut off there is left out. */
  end(): Buffer {
    if (!this.#answers) return Buffer.alloc(0)
    if (this.#form === 'json') this.#parsed.push({ data: this.#json })
    else this.#parser.feed(`${this.#decoder.decode()}\n\n`)
    return Buffer.concat([this.#written(this.#form !== 'json'), Buffer.from(textOf(this.#answers.end()))])
  }

  #written(isEnd: boolean): Buffer {
    const parsed = this.#parsed.splice(0)
    this.#count += parsed.length
    if (this.#count > maxEvents) throw tooLarge()
    return Buffer.from(parsed.map((event) => this.#eventFor(event, isEnd)).join(''))
  }

  #eventFor({ event, data }: EventSourceMessage, isEnd: boolean): string {
    const value = boundedJson(data)
    if (!this.#answers) return `${event ? `event: ${event}\n` : ''}${data.replace(/^/gm, 'data: ')}\n\n`
    const isBlank = data.trim() === '' || data.trim() === '[DONE]'
    if (value === undefined && !isEnd && !isBlank) throw invalidAnswer()
    return textOf(this.#answers.next(value))
  }
}

function textOf(events: readonly Fields[]): string {
  return events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')
}
