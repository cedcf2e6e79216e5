import { maxAnswerBytes } from './answer.ts'
import { tooLarge } from './errors.ts'
import { unitsOf } from './turn-scheduler.ts'

/**
 * The most units of JSON that may be parsed in one synchronous call. A unit is about one JSON value. A package of the AI SDK
 * takes up to 5 µs for each unit, so about 120 ms in total. The longest tool call that a model can write has fewer units, because
 * a JSON string of any length is one value.
 */
export const maxUnitsAtOnce = 25_000

/** Units of an array or object. Each comma in the array or object adds one unit, so each further value does. */
const unitsOfContainer = 5

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
 * Estimates the cost of parsing JSON while its bytes arrive, by counting its arrays, objects and values. In an event stream some
 * lines are not JSON, such as `event: {"`. Such a line makes only its own count wrong: at each line break the counter leaves a
 * JSON string, because no JSON string contains a line break.
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

  /**
   * Counts the bytes from an index to the end of an event.
   * @returns the index after the blank line that ends the event; the length of the bytes if no event ends in them
   */
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

  countAll(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; ) at = this.next(bytes, at)
  }

  #count(kind: number): void {
    if (kind === quote) this.#isInString = !this.#isInString
    else if (this.#isInString) this.#isEscaped = kind === backslash
    else if (kind === opening) this.units += unitsOfContainer
    else if (kind === comma) this.units++
  }

  /** Handles the bytes `\r` and `\n`; `\r\n` is one line break. @returns whether the line that ends here is empty */
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
   * @returns the index after the event, and the event's units; if the event has not ended, the length of the bytes, and undefined
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
