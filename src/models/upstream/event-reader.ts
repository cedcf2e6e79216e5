import { createParser } from 'eventsource-parser'
import { field } from '../../fields.ts'
import type { Chunk } from '../../openai/completion.ts'
import type { ChunkEvent, ModelEvent } from '../model.ts'
import { checked, isChunk, jsonOf, maxAnswerBytes } from './answer.ts'
import { ChoiceRoles } from './choice-roles.ts'
import { invalidAnswer, tooLarge } from './errors.ts'
import { errorInside } from './inside-error.ts'
import { dataPrefix, eventEnd, UnreadPassages } from './unread-passages.ts'

/** The data of the event that ends a stream. */
const done = '[DONE]'

/** Events that arrived together, up to the end of the stream or a failure. */
export interface EventGroup {
  readonly events: readonly ModelEvent[]
  readonly isDone: boolean
  readonly failure?: unknown
}

/** A parsed event. An event with an added role cannot be in a passage, because a passage consists of the upstream's bytes. */
interface ReadEvent extends ChunkEvent {
  readonly isMended?: true
}

interface ReadEventGroup extends EventGroup {
  readonly events: readonly ReadEvent[]
}

/** The first byte of a JSON object. */
const openBrace = 0x7b

/** An unfinished event of more bytes goes to the parser. Otherwise the event would be scanned again with each piece. */
const longEventBytes = 256 * 1024

/**
 * Splits bytes into events. Once a choice has begun, an event without anything that the service needs passes unread, because
 * parsing costs much time (`unread-passages.ts`). All other events are parsed. Every event is parsed if `readAll` is true, after
 * a carriage return, and after a long unfinished event.
 */
export class EventReader {
  readonly #decoder = new TextDecoder()
  readonly #parser = createParser({ onEvent: ({ data }) => this.#texts.push(data) })
  #texts: string[] = []
  /** The bytes that must wait for more bytes: an unfinished event, or a body that may be plain JSON. Undefined without any. */
  #rest: Buffer | undefined
  /** Once true, the parser gets every event, and keeps unfinished events. */
  #isParsing: boolean
  /** The bytes that the parser has got since its last event. */
  #fedBytes = 0
  /** Adds missing roles. Every event is parsed until a choice has begun, because a role may have to be added. */
  readonly #roles = new ChoiceRoles()
  readonly #secrets: readonly string[]

  /** The number of bytes of the unfinished event. */
  get unfinishedBytes(): number {
    return this.#rest?.length ?? this.#fedBytes
  }

  /**
   * @param readAll whether to parse every event
   * @param secrets texts that no error may repeat
   */
  constructor(readAll: boolean, secrets: readonly string[]) {
    this.#isParsing = readAll
    this.#secrets = secrets
  }

  read(bytes: Buffer): EventGroup {
    const all = this.#rest ? Buffer.concat([this.#rest, bytes]) : bytes
    this.#rest = undefined
    // A body that begins with a brace has no events. It may be the plain JSON of an error, which is read at its end.
    if (!this.#roles.hasBegun && all[0] === openBrace && all.length <= longEventBytes) {
      this.#rest = all
      return { events: [], isDone: false }
    }
    // In latin1 each byte is one character, so indices are the same. Searching a string is much faster than searching bytes.
    const text = all.toString('latin1')
    // Carriage returns are rare, so only the parser handles lines that end with one.
    this.#isParsing ||= text.includes('\r')
    if (this.#isParsing) return this.#parse(all)
    const end = text.lastIndexOf(eventEnd) + eventEnd.length
    if (end < eventEnd.length) {
      this.#isParsing = all.length > longEventBytes
      if (this.#isParsing) return this.#parse(all)
      this.#rest = all
      return { events: [], isDone: false }
    }
    if (end < all.length) this.#rest = all.subarray(end)
    return this.#readWhole(all, text, end)
  }

  /** Reads the end of the stream. The last event may lack its blank line, and some services send an error as plain JSON. */
  end(): EventGroup {
    const rest = this.#decoder.decode(this.#rest)
    const failure = this.#roles.hasBegun ? undefined : errorInside(jsonOf(rest), this.#secrets)
    if (failure) return { events: [], isDone: false, failure }
    this.#parser.feed(`${rest}\n\n`)
    return this.#groupOf(this.#texts, true)
  }

  /**
   * Reads whole events. Consecutive events, each of one line `data: …`, become one passage. An event with usage, and an event
   * with an added role, are never in a passage.
   */
  #readWhole(bytes: Buffer, text: string, length: number): EventGroup {
    const unread = new UnreadPassages(text, length)
    const events: ModelEvent[] = []
    let read: Chunk[] = []
    let start = 0
    let at = 0
    let count = 0
    const endPassage = () => {
      if (count > 0) {
        const firstLength = text.indexOf(eventEnd, start) + eventEnd.length - start
        events.push({ passage: bytes.subarray(start, at), read, events: count, firstLength })
      }
      read = []
      count = 0
    }
    while (at < length) {
      if (this.#roles.hasBegun) {
        const run = unread.next(at)
        at = run.end
        count += run.events
      }
      if (at === length) break
      const end = text.indexOf(eventEnd, at)
      const isOneLine = text.startsWith(dataPrefix, at) && text.indexOf('\n', at) === end
      const group = isOneLine
        ? this.#groupOf([bytes.toString('utf8', at + dataPrefix.length, end)])
        : this.#parse(bytes.subarray(at, end + eventEnd.length))
      const [event] = group.events
      if (isOneLine && event && event.chunk.usage == null && !event.isMended) {
        read.push(event.chunk)
        count++
        at = end + eventEnd.length
        continue
      }
      endPassage()
      events.push(...group.events)
      if (group.isDone || group.failure) return { ...group, events }
      start = at = end + eventEnd.length
    }
    endPassage()
    return { events, isDone: false }
  }

  #parse(bytes: Buffer): ReadEventGroup {
    this.#parser.feed(this.#decoder.decode(bytes, { stream: true }))
    const texts = this.#texts
    this.#texts = []
    this.#fedBytes = texts.length > 0 ? 0 : this.#fedBytes + bytes.length
    if (this.#fedBytes > maxAnswerBytes) return { events: [], isDone: false, failure: tooLarge() }
    return this.#groupOf(texts)
  }

  /** Parses events. @param isEnd whether the stream has ended. Then an event that is not JSON was cut off, and is left out */
  #groupOf(texts: readonly string[], isEnd = false): ReadEventGroup {
    const events: ReadEvent[] = []
    for (const text of texts) {
      if (text.trim() === done) return { events, isDone: true }
      try {
        const value = jsonOf(text)
        if (isEnd && value === undefined) continue
        const chunk = readChunk(value, this.#secrets)
        const mended = this.#roles.mend(chunk)
        events.push(mended ? { chunk: mended, text: JSON.stringify(mended), isMended: true } : { chunk, text })
      } catch (failure) {
        return { events, isDone: false, failure }
      }
    }
    return { events, isDone: false }
  }
}

function readChunk(value: unknown, secrets: readonly string[]): Chunk {
  const chunk = checked(value, secrets)
  if (isChunk(chunk)) return chunk
  // Some services send a usage chunk without `choices`.
  if (typeof chunk === 'object' && field(chunk, 'usage') != null && field(chunk, 'choices') == null) {
    const usageOnly = { ...chunk, choices: [] }
    if (isChunk(usageOnly)) return usageOnly
  }
  throw invalidAnswer()
}
