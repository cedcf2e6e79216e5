import { maxAnswerBytes } from './answer.ts'
import { tooLarge } from './errors.ts'
import { unitsOf } from './turn-scheduler.ts'

/**
 * Units of JSON that are read in one stretch: a package of the AI SDK takes up to 3 µs for each, some 130 ms together. The
 * longest tool call that a model can write has fewer, and text is one value however long it is.
 */
export const maxUnitsAtOnce = 40_000

/** Units of an array or object. A value in one is a unit. */
const unitsOfContainer = 5

/** What bytes mean to JSON and to event streams; all others are plain. */
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
 * Weighs JSON as its bytes come, by what is costly to read: its arrays, objects and values. A string cannot go on in another
 * line: so what stands in other lines of an event stream misleads it for that line alone.
 */
export class CostCounter {
  /** Units of what has been weighed. */
  units = 0
  /** Whether an event ended where it stopped. */
  hasEnded = false
  #isInString = false
  #isEscaped = false
  /** What came last. */
  #last = lineFeed

  /** Weighs on from a place. @returns the place behind the blank line that ends an event; the end where there is none */
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

  /** Weighs all bytes of a piece. */
  countAll(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; ) at = this.next(bytes, at)
  }

  #count(kind: number): void {
    if (kind === quote) this.#isInString = !this.#isInString
    else if (this.#isInString) this.#isEscaped = kind === backslash
    else if (kind === opening) this.units += unitsOfContainer
    else if (kind === comma) this.units++
  }

  /** Notes a line break, of which a carriage return and a line feed are one. @returns whether its line was empty */
  #endsEvent(kind: number, before: number): boolean {
    this.#isInString = false
    this.#isEscaped = false
    return kind === carriageReturn ? before >= carriageReturn : before === lineFeed
  }
}

function kindAt(bytes: Uint8Array, at: number): number {
  return kinds[bytes[at] ?? 0] ?? plain
}

/** What of a JSON text is costly to read in one stretch. Units. */
export function costOf(bytes: Uint8Array): number {
  const counter = new CostCounter()
  counter.countAll(bytes)
  return counter.units
}

/** Follows the events of a stream through its bytes. */
export class EventCostCounter {
  readonly #counter = new CostCounter()
  /** Bytes of the event that has not ended. */
  unended = 0

  /**
   * Reads on to the end of an event.
   * @returns the place behind it, and what reading it costs; where it does not end, the end of the bytes and undefined
   * @throws ApiError 502 for an event that is too large, or has too much in it
   */
  next(bytes: Uint8Array, start: number): { readonly end: number; readonly units: number | undefined } {
    const end = this.#counter.next(bytes, start)
    this.unended += end - start
    if (this.unended > maxAnswerBytes || this.#counter.units > maxUnitsAtOnce) throw tooLarge()
    if (!this.#counter.hasEnded) return { end, units: undefined }
    const units = this.#counter.units + unitsOf(this.unended)
    this.#counter.units = 0
    this.unended = 0
    return { end, units }
  }
}
