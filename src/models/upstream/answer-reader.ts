import { createParser, type EventSourceParser } from 'eventsource-parser'
import { field, isFields, listIn } from '../../fields.ts'
import { type Chunk, type Completion, wordsOf } from '../../openai/completion.ts'
import type { ChunkEvent, ModelEvent, ModelReply } from '../model.ts'
import { jsonOf, maxAnswerBytes } from './answer.ts'
import { ChunkReader, type ReadChunk } from './chunk-reader.ts'
import { invalidAnswer, tooLarge } from './errors.ts'
import { dataPrefix, EventForms, eventEnd } from './event-forms.ts'

/** The data of the event that ends a stream. */
const done = '[DONE]'

/** Events that arrived together, up to the end of the answer or a failure. */
export interface EventGroup {
  readonly events: readonly ModelEvent[]
  readonly isDone: boolean
  readonly failure?: unknown
}

type ParsedEvent = ChunkEvent & ReadChunk

/** Parsed events. */
interface ParsedGroup extends EventGroup {
  readonly events: readonly ParsedEvent[]
}

/** An unfinished event of more bytes goes to the parser. Otherwise the event would be scanned again with each piece. */
const longEventBytes = 256 * 1024

/** A byte order mark, and white space that JSON allows. */
const blank: ReadonlySet<number> = new Set([0xef, 0xbb, 0xbf, 0x20, 0x09, 0x0a, 0x0d])
const openBrace = 0x7b
const openBracket = 0x5b

const noEvents: EventGroup = { events: [], isDone: false }

/**
 * Reads the bytes of an answer as events, whatever the request asked for: server-sent events, or JSON, which is one event. The
 * first byte that is not blank tells the two apart. An event passes unread if it has the form of an event that passed unchanged
 * (`event-forms.ts`). All other events are parsed. Every event is parsed if `readAll` is true, after a carriage return, and after
 * a long unfinished event.
 */
export class AnswerReader {
  /** The reply in a body that is JSON. It is no event of its own: `chunkOf` makes one. */
  reply: ModelReply | undefined
  readonly #chunks: ChunkReader
  readonly #readAll: boolean
  /** Made when it is needed: most answers are JSON, or have events that pass unread. */
  #decoder: TextDecoder | undefined
  readonly #forms = new EventForms()
  #form: 'unknown' | 'json' | 'events' = 'unknown'
  /** The pieces of a body that is JSON, or that has only blanks so far. */
  #pieces: Buffer[] = []
  /** An unfinished event. */
  #rest: Buffer | undefined
  /** Once there is a parser, it gets every event, and keeps unfinished events. */
  #parser: EventSourceParser | undefined
  #texts: string[] = []
  #isDone = false
  /** The bytes of a body that is JSON; otherwise the bytes that the parser has got since its last event. */
  #heldBytes = 0

  /** The bytes that may still come. */
  #leftBytes: number

  /**
   * @param readAll whether to parse every event
   * @param secrets texts that no error may repeat
   * @param maxBytes the most bytes of all events together
   */
  constructor(readAll: boolean, secrets: readonly string[], maxBytes = Number.POSITIVE_INFINITY) {
    this.#readAll = readAll
    this.#leftBytes = maxBytes
    this.#chunks = new ChunkReader(secrets)
  }

  /** Whether the body is JSON, so that it is parsed at its end. */
  get isJson(): boolean {
    return this.#form === 'json'
  }

  /** The number of bytes that wait for more bytes. */
  get unfinishedBytes(): number {
    return this.#rest?.length ?? this.#heldBytes
  }

  /** Whether at least `minCount` choices, and all that have begun, have their finish reason. */
  hasFinished(minCount: number): boolean {
    return this.#chunks.hasFinished(minCount)
  }

  read(bytes: Buffer): EventGroup {
    this.#leftBytes -= bytes.length
    if (this.#leftBytes < 0) return { ...noEvents, failure: tooLarge() }
    if (this.#form !== 'events' && !this.#beginsEvents(bytes)) return this.#collect(bytes)
    const before = this.#rest ? [this.#rest] : this.#pieces.splice(0)
    const all = before.length > 0 ? Buffer.concat([...before, bytes]) : bytes
    this.#rest = undefined
    if (this.#readAll) return this.#parse(all)
    // In Latin-1 each byte is one character, so indices are the same. Searching a string is much faster than searching bytes.
    const text = all.toString('latin1')
    // Carriage returns are rare, so only the parser handles lines that end with one.
    if (this.#parser || text.includes('\r')) return this.#parse(all)
    const end = text.lastIndexOf(eventEnd) + eventEnd.length
    if (end < eventEnd.length && all.length > longEventBytes) return this.#parse(all)
    const whole = Math.max(0, end < eventEnd.length ? 0 : end)
    if (whole < all.length) this.#rest = all.subarray(whole)
    return this.#readWhole(all, text, whole)
  }

  /** Reads the end of the answer, unless the last event has come. The last event may lack its blank line. */
  end(): EventGroup {
    if (this.#isDone) return noEvents
    if (this.#form === 'json') return this.#readJson()
    const group = this.#parse(this.#rest ?? Buffer.alloc(0))
    if (group.isDone || group.failure) return group
    const last = this.#feed(`${this.#decoded()}\n\n`, true)
    return { ...last, events: [...group.events, ...last.events] }
  }

  /** Whether these bytes are the first of events. Sets the form. */
  #beginsEvents(bytes: Buffer): boolean {
    const first = bytes.find((byte) => !blank.has(byte))
    if (this.#form !== 'unknown' || first === undefined) return false
    this.#form = first === openBrace || first === openBracket ? 'json' : 'events'
    return this.#form === 'events'
  }

  #collect(bytes: Buffer): EventGroup {
    this.#pieces.push(bytes)
    this.#heldBytes += bytes.length
    return this.#heldBytes > maxAnswerBytes ? { ...noEvents, failure: tooLarge() } : noEvents
  }

  #readJson(): EventGroup {
    const [first, ...more] = this.#pieces.splice(0)
    const all = first && more.length === 0 ? first : Buffer.concat([...(first ? [first] : []), ...more])
    // Without a byte order mark.
    const bytes = all.subarray(all.findIndex((byte) => !blank.has(byte)))
    const text = bytes.toString('utf8')
    try {
      const value = jsonOf(text)
      // Some services send each chunk as a line of JSON, or an error before the events.
      if (value === undefined)
        return this.#groupOf(
          text.split('\n').map((line) => line.replace(/^data: ?/, '')),
          true,
        )
      const read = this.#chunks.completion(value)
      // A chunk is a stream of one event.
      if (!read && hasDelta(value)) return this.#groupOf([text], true)
      if (!read) throw invalidAnswer()
      const { completion, isChanged } = read
      this.reply = isChanged ? { completion } : { completion, bytes }
      return { ...noEvents, isDone: true }
    } catch (failure) {
      return { ...noEvents, failure }
    }
  }

  /** Reads whole events. */
  #readWhole(bytes: Buffer, text: string, length: number): EventGroup {
    const events: ModelEvent[] = []
    let at = 0
    while (at < length) {
      const run = this.#forms.run(text, at)
      if (run.events > 0) {
        events.push({ passage: bytes.subarray(at, run.end), events: run.events, words: run.words })
        at = run.end
        continue
      }
      const end = text.indexOf(eventEnd, at)
      const isOneLine = text.startsWith(dataPrefix, at) && text.indexOf('\n', at) === end
      const group = isOneLine
        ? this.#groupOf([bytes.toString('utf8', at + dataPrefix.length, end)])
        : this.#parseAlone(bytes.subarray(at, end + eventEnd.length))
      events.push(...group.events)
      if (group.isDone || group.failure) return { ...group, events }
      this.#learn(group, isOneLine ? text.slice(at, end + eventEnd.length) : undefined)
      at = end + eventEnd.length
    }
    return { events, isDone: false }
  }

  /** Adds the form of an event if the service needs nothing from it. @param text the event; undefined if it has other lines */
  #learn({ events: [event] }: ParsedGroup, text: string | undefined): void {
    if (!event) return
    const { chunk, isChanged, begins } = event
    const [choice, ...others] = chunk.choices
    const calls = choice?.delta?.tool_calls
    const needsState = isChanged || begins || (calls ?? []).some((call) => call.id || call.function?.name)
    if (calls && needsState) this.#forms.clear()
    // A call without arguments may still be told from another call by its name, so its first arguments are parsed.
    const words = wordsOf(choice?.delta).length
    const isPlain =
      choice && others.length === 0 && !choice.finish_reason && chunk.usage == null && !(calls && words === 0)
    if (text !== undefined && isPlain && !needsState) this.#forms.add(text, words)
  }

  /** Parses whole events with a parser of their own: nothing is left in it. */
  #parseAlone(bytes: Buffer): ParsedGroup {
    const texts: string[] = []
    createParser({ onEvent: ({ data }) => texts.push(...separated(data)) }).feed(this.#decoded(bytes))
    return this.#groupOf(texts)
  }

  #parse(bytes: Buffer): ParsedGroup {
    this.#rest = undefined
    this.#heldBytes += bytes.length
    const group = this.#feed(this.#decoded(bytes))
    if (this.#heldBytes <= maxAnswerBytes || group.failure) return group
    return { ...group, failure: tooLarge() }
  }

  /** Bytes as text, without a character that is cut off at their end; without bytes, the end of the text. */
  #decoded(bytes?: Buffer): string {
    this.#decoder ??= new TextDecoder()
    return this.#decoder.decode(bytes, { stream: bytes !== undefined })
  }

  #feed(text: string, isEnd = false): ParsedGroup {
    this.#parser ??= createParser({ onEvent: ({ data }) => this.#texts.push(...separated(data)) })
    this.#parser.feed(text)
    if (this.#texts.length > 0) this.#heldBytes = 0
    return this.#groupOf(this.#texts.splice(0), isEnd)
  }

  /** Parses events. @param isEnd whether the answer has ended. Then an event that is not JSON was cut off, and is left out */
  #groupOf(texts: readonly string[], isEnd = false): ParsedGroup {
    const events: ParsedEvent[] = []
    for (const text of texts) {
      if (text.charCodeAt(0) !== openBrace && text.trim() === done) {
        this.#isDone = true
        return { events, isDone: true }
      }
      try {
        const event = this.#eventOf(text, isEnd)
        if (event) events.push(event)
      } catch (failure) {
        return { events, isDone: false, failure }
      }
    }
    return { events, isDone: false }
  }

  /** Parses the data of an event; undefined if it is no completion. */
  #eventOf(text: string, isEnd: boolean): ParsedEvent | undefined {
    const value = jsonOf(text)
    if (value === undefined && !isEnd && text.trim() !== '') throw invalidAnswer()
    const read = this.#chunks.chunk(value)
    return read && { ...read, text: read.isChanged ? JSON.stringify(read.chunk) : text }
  }
}

/** The data of events between which the blank line is missing. JSON of several lines is one event. */
function separated(text: string): readonly string[] {
  const lines = text.includes('\n') ? text.split('\n') : []
  return lines.length > 1 && lines.every((line) => line === done || /^\{.*\}$/.test(line)) ? lines : [text]
}

function hasDelta(value: unknown): boolean {
  return listIn(isFields(value) ? value : {}, 'choices').some((choice) => isFields(field(choice, 'delta')))
}

/** The whole completion as one chunk. A call needs an index there. */
export function chunkOf({ choices, ...head }: Completion): Chunk {
  return {
    ...head,
    object: 'chat.completion.chunk',
    choices: choices.map(({ message: { tool_calls: calls, ...said }, ...choice }) => ({
      ...choice,
      finish_reason: choice.finish_reason || (calls?.length ? 'tool_calls' : 'stop'),
      delta: { ...said, ...(calls ? { tool_calls: calls.map((call, index) => ({ ...call, index })) } : {}) },
    })),
  }
}
