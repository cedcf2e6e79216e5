import { maxAnswerBytes } from './answer.ts'
import { tooLarge } from './errors.ts'
import { unitsOf } from './turn-scheduler.ts'

/**
 * Units of JSON that are parsed in one synchronous call: a package of the AI SDK takes up to 3 µs for each, about 130 ms together.
 * The longest tool call that a model can write has fewer. A text is one value, however long.
 */
export const maxUnitsAtOnce = 40_000

/** Units of an array or object. Each value in it is one unit. */
const unitsOfContainer = 5

/** The bytes that matter to JSON and to event streams; all others are plain. */
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
 * Estimates the cost of parsing JSON as its bytes come, from its arrays, objects and values. A JSON string ends within its line, so
 * other lines of an event stream can mislead the counter for their own line only.
 */
export class CostCounter {
  /** Units so far. */
  units = 0
  /** Whether `next` stopped at the end of an event. */
  hasEnded = false
  #isInString = false
  #isEscaped = false
  /** The kind of the last byte. */
  #last = lineFeed

  /** Counts from an index. @returns the index after the blank line that ends an event; the length where no event ends */
  next(bytes: Uint8Array, start: number): number {
    this.hasEnded = false
    for (let at = start; at < bytes.length; at++) {
      const kind = kindAt(bytes, at)
      if (kind >= carriageReturn) {
        if (!this.#endsEvent(kind, at > start ? kindAt(bytes, at - 1) : this.#last)) continue
        this.#last = kind
        this.hasEnded = true
        return at + 1
      }
      if (this.#isEscaped) this.#isEscaped = false
      else if (kind !== plain) this.#count(kind)
    }
    if (start < bytes.length) this.#last = kindAt(bytes, bytes.length - 1)
    return bytes.length
  }

  /** Counts all bytes. */
  countAll(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; ) at = this.next(bytes, at)
  }

  #count(kind: number): void {
    if (kind === quote) this.#isInString = !this.#isInString
    else if (this.#isInString) this.#isEscaped = kind === backslash
    else if (kind === opening) this.units += unitsOfContainer
    else if (kind === comma) this.units++
  }

  /** Handles a line break; a carriage return with a line feed is one. @returns whether the line before it was empty */
  #endsEvent(kind: number, before: number): boolean {
    this.#isInString = false
    this.#isEscaped = false
    return kind === carriageReturn ? before >= carriageReturn : before === lineFeed
  }
}

function kindAt(bytes: Uint8Array, at: number): number {
  return kinds[bytes[at] ?? 0] ?? plain
}

/** Units of a JSON text. */
export function costOf(bytes: Uint8Array): number {
  const counter = new CostCounter()
  counter.countAll(bytes)
  return counter.units
}

/** Counts the cost of each event of a stream from its bytes. */
export class EventCostCounter {
  readonly #counter = new CostCounter()
  /** Bytes of the event that has not ended. */
  unfinishedBytes = 0

  /**
   * Counts to the end of the event.
   * @returns the index after the event and its units; for an event that goes on, the length and undefined
   * @throws ApiError 502 for an event of too many bytes or units
   */
  next(bytes: Uint8Array, start: number): { readonly end: number; readonly units: number | undefined } {
    const end = this.#counter.next(bytes, start)
    this.unfinishedBytes += end - start
    if (this.unfinishedBytes > maxAnswerBytes || this.#counter.units > maxUnitsAtOnce) throw tooLarge()
    if (!this.#counter.hasEnded) return { end, units: undefined }
    const units = this.#counter.units + unitsOf(this.unfinishedBytes)
    this.#counter.units = 0
    this.unfinishedBytes = 0
    return { end, units }
  }
}
