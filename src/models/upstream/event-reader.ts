import { createParser } from 'eventsource-parser'
import { field } from '../../fields.ts'
import type { Chunk } from '../../openai/completion.ts'
import type { ChunkEvent, ModelEvent } from '../model.ts'
import { isChunk, maxBytesAtOnce, parseAnswer } from './answer.ts'
import { ChoiceRoles } from './choice-roles.ts'
import { costOf, EventCostCounter, maxUnitsAtOnce } from './cost-counter.ts'
import { notUnderstood, tooLarge } from './errors.ts'
import { errorInside } from './inside-error.ts'
import { dataPrefix, eventEnd, unreadPassage } from './unread-passages.ts'

/** The data of the event that ends a stream. */
const done = '[DONE]'

/** What arrived together: its events up to the end, or up to what cannot be one. */
export interface EventGroup {
  readonly events: readonly ModelEvent[]
  readonly isDone: boolean
  readonly failure?: unknown
}

/** An event that was read; it does not pass as it came where it is mended. */
interface ReadEvent extends ChunkEvent {
  readonly isMended?: true
}

interface ReadEventGroup extends EventGroup {
  readonly events: readonly ReadEvent[]
}

/** Bytes of an event without an end, from which on it is no longer read anew with each piece that comes. */
const longEventBytes = 256 * 1024

/**
 * Cuts bytes into events. Plain events that say nothing the service must know pass unread, since reading them would cost
 * as much as relaying them; every other one is parsed.
 */
export class EventReader {
  readonly #decoder = new TextDecoder()
  readonly #parser = createParser({ onEvent: ({ data }) => this.#texts.push(data) })
  #texts: string[] = []
  /** Bytes of an event whose end has not come. */
  #rest: Buffer | undefined
  /** From then on the parser gets every byte, and keeps what has not ended. */
  #isParsing: boolean
  /** Weighs what the parser gets. */
  readonly #costs = new EventCostCounter()
  /** Events are read until the answer has begun: whether there is one at all, and with a role, is known then. */
  readonly #roles = new ChoiceRoles()
  readonly #secrets: readonly string[]

  /** Bytes of an event that has not ended. */
  get unended(): number {
    return this.#rest?.length ?? this.#costs.unended
  }

  /**
   * @param readAll parse every event
   * @param secrets what no error may repeat
   */
  constructor(readAll: boolean, secrets: readonly string[]) {
    this.#isParsing = readAll
    this.#secrets = secrets
  }

  read(bytes: Buffer): EventGroup {
    const all = this.#rest ? Buffer.concat([this.#rest, bytes]) : bytes
    this.#rest = undefined
    // One character to a byte, so that places in the text are places in the bytes; searching a text is much quicker.
    const text = all.toString('latin1')
    // Lines that end in another way than with a line feed are rare, and the parser's business.
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

  /** The last event may lack its blank line; a piece of one is none. Some services send an error by itself, without an event around it. */
  end(): EventGroup {
    const rest = this.#decoder.decode(this.#rest)
    if (!this.#roles.hasBegun && isJson(rest)) {
      const failure = errorInside(JSON.parse(rest), this.#secrets)
      if (failure) return { events: [], isDone: false, failure }
    }
    this.#parser.feed(`${rest}\n\n`)
    return this.#groupOf(this.#texts.filter((text) => text === done || isJson(text)))
  }

  /** Whole events: passages as long as they can be, and by themselves the events that cannot be in one. */
  #readWhole(bytes: Buffer, text: string, length: number): EventGroup {
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
        const run = unreadPassage(text, at, length)
        at = run.end
        count += run.events
      }
      if (at === length) break
      const end = text.indexOf(eventEnd, at)
      const isOneLine = text.startsWith(dataPrefix, at) && text.indexOf('\n', at) === end
      const group = isOneLine
        ? this.#readLine(bytes.subarray(at + dataPrefix.length, end))
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
    let at = 0
    let failure: unknown
    try {
      while (at < bytes.length) at = this.#costs.next(bytes, at).end
    } catch (thrown) {
      failure = thrown
    }
    this.#parser.feed(this.#decoder.decode(bytes.subarray(0, at), { stream: true }))
    const texts = this.#texts
    this.#texts = []
    const group = this.#groupOf(texts)
    return failure === undefined || group.isDone || group.failure ? group : { ...group, failure }
  }

  /** The event of one line of data. */
  #readLine(data: Buffer): ReadEventGroup {
    const isTooCostly = data.length > maxBytesAtOnce && costOf(data) > maxUnitsAtOnce
    return isTooCostly ? { events: [], isDone: false, failure: tooLarge() } : this.#groupOf([data.toString('utf8')])
  }

  #groupOf(texts: readonly string[]): ReadEventGroup {
    const events: ReadEvent[] = []
    for (const text of texts) {
      if (text.trim() === done) return { events, isDone: true }
      try {
        const chunk = readChunk(text, this.#secrets)
        const mended = this.#roles.mend(chunk)
        events.push(mended ? { chunk: mended, text: JSON.stringify(mended), isMended: true } : { chunk, text })
      } catch (failure) {
        return { events, isDone: false, failure }
      }
    }
    return { events, isDone: false }
  }
}

function readChunk(text: string, secrets: readonly string[]): Chunk {
  const chunk = parseAnswer(text, secrets)
  if (isChunk(chunk)) return chunk
  // Some services leave the choices out where there is only usage to tell.
  if (typeof chunk === 'object' && field(chunk, 'usage') != null && field(chunk, 'choices') == null) {
    const usageOnly = { ...chunk, choices: [] }
    if (isChunk(usageOnly)) return usageOnly
  }
  throw notUnderstood()
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
