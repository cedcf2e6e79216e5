import { LongJsonString, maxPieceLength, positionIn } from './long-json-strings.ts'
import { endOfShortString } from './short-json-strings.ts'
import type { Steps } from './work.ts'

/**
 * A reader of untrusted JSON (RFC 8259) in steps. V8's JSON.parse cannot be interrupted, and takes microseconds for each new
 * property name. It also misreads escaped names after a program has parsed a name with a backslash:
 * https://github.com/nodejs/node/issues/63785. Here JSON.parse reads only single strings.
 */

/** The rules for a text. */
export interface JsonBounds {
  /** The maximum levels of nesting. */
  readonly depth: number
  /** Whether a repeated property is refused, or the last one replaces the earlier ones. */
  readonly duplicates: 'refused' | 'last'
  /** Whether to refuse a fraction that a double rounds to an integer. By default the number becomes the integer. */
  readonly roundedIntegers?: 'refused'
  /** Called for each string with a lone surrogate. Only an escape can make a lone surrogate. */
  readonly onLoneSurrogate?: () => void
  /** Names of properties. Their values are read, but not kept and not counted. */
  readonly drops?: ReadonlySet<string>
  /** The most properties of the outermost object. Without it, the object may have as many as each other object. */
  readonly fields?: number
  /** The number of values that several texts together may still have. Each value lowers the number by one. */
  readonly shared?: { left: number }
}

/**
 * The faults of a text. `length` is a property name, white space or a number that is too long. `fields` is too many properties of
 * the outermost object.
 */
export type JsonFaultKind = 'syntax' | 'duplicate' | 'depth' | 'count' | 'fields' | 'length' | 'number'

/** The error for a refused text. The message does not quote the text. */
export class JsonFault extends Error {
  readonly kind: JsonFaultKind
  /** The position of the fault, in UTF-16 units from the start. It is the length of the text if the text ends too early. */
  readonly position: number

  constructor(kind: JsonFaultKind, position: number) {
    super(`JSON: ${kind}`)
    this.name = 'JsonFault'
    this.kind = kind
    this.position = position
  }
}

/**
 * The most values (properties and items) of one text. 10,000 messages have 30,000 values, and the largest real cards about
 * 10,000. Each value may take a hundred bytes of memory, and many callers may send large texts at the same time.
 */
export const maxJsonValues = 100_000
/** The most properties of one object. To enumerate 20,000 properties blocks the event loop for some milliseconds. */
export const maxJsonProperties = 20_000
/**
 * The most fields of a request: the properties of its outermost object. The service checks and copies a request in several steps,
 * and each would take 10 ms for 20,000 fields. OpenAI's requests have some 40 fields.
 */
export const maxRequestFields = 1000

/** The most characters of a number, and of white space in a row. Each is read in one step, in about 1 ms. */
export const maxJsonRun = 256 * 1024

/** The most characters of a property name. V8 hashes longer names by their length alone, so they would collide in objects. */
export const maxJsonNameLength = 16_000

/** The texts of the fault `length`, for messages. */
export const tooLongTexts = `a property name of more than ${maxJsonNameLength} characters, or a number or white space of more than ${maxJsonRun}`

/** The characters that one step reads, which takes about 100 µs. */
const stepLength = 10_000

/**
 * Reads a JSON text in steps.
 * @throws JsonFault
 */
export function* jsonSteps(text: string, bounds: JsonBounds): Steps<unknown> {
  const reader = new Reader(text, bounds)
  for (;;) {
    const cost = reader.step(stepLength)
    if (reader.isDone) return reader.value
    yield cost
  }
}

/**
 * Reads a JSON text without a pause.
 * @throws JsonFault
 */
export function readJson(text: string, bounds: JsonBounds): unknown {
  const reader = new Reader(text, bounds)
  while (!reader.isDone) reader.step(Number.POSITIVE_INFINITY)
  return reader.value
}

/** The highest code of JSON's white space. No token of JSON begins with a lower code. */
const space = 0x20
const quote = 0x22
const backslash = 0x5c
const comma = 0x2c
const colon = 0x3a
const openBrace = 0x7b
const closeBrace = 0x7d
const openBracket = 0x5b
const closeBracket = 0x5d

type Container = unknown[] | Record<string, unknown>

/** An array or object that is not closed yet. */
interface Level {
  readonly container: Container
  readonly isArray: boolean
  /** Whether the values in it are dropped (`drops`). */
  readonly isDropped: boolean
  /** The name of the current value. */
  name: string
  properties: number
  readonly maxProperties: number
}

/** Reads one text. The levels of nesting are in a list and not on the call stack, so that reading can pause between two steps. */
class Reader {
  readonly #text: string
  readonly #bounds: JsonBounds
  readonly #outer: Level[] = []
  #level: Level | undefined
  #position = 0
  /** The long string that is being read. */
  #longString: LongJsonString | undefined
  #values = 0
  isDone = false
  value: unknown

  constructor(text: string, bounds: JsonBounds) {
    this.#text = text
    this.#bounds = bounds
  }

  /** Reads values until at least `length` characters are read. @returns the cost in units of work (`Steps`) */
  step(length: number): number {
    const start = this.#position
    const end = start + length
    const firstValue = this.#values
    while (!this.isDone && this.#position < end) {
      if (this.#longString) this.#readPiece(this.#longString)
      else this.#readValue()
    }
    return 10 * (this.#values - firstValue) + ((this.#position - start) >> 3)
  }

  /** Whether the current value is dropped. Called only if `drops` is set. */
  get #isDropping(): boolean {
    if (!this.#level) return false
    return this.#level.isDropped || this.#bounds.drops?.has(this.#level.name) === true
  }

  /** Reads a whole scalar, or the beginning of a container. In an object it reads the name first. */
  #readValue(): void {
    if (this.#level && !this.#level.isArray) this.#readName(this.#level)
    let code = this.#text.charCodeAt(this.#position)
    if (code <= space) code = this.#skipSpace()
    const isDropped = this.#bounds.drops !== undefined && this.#isDropping
    if (!isDropped && ++this.#values > maxJsonValues) throw this.#fault('count')
    if (this.#bounds.shared && --this.#bounds.shared.left < 0) throw this.#fault('count')
    if (code === quote) this.#readText()
    else if (code === openBrace) this.#open({}, false, closeBrace)
    else if (code === openBracket) this.#open([], true, closeBracket)
    else this.#add(this.#readScalar(code))
  }

  #open(container: Container, isArray: boolean, close: number): void {
    if (this.#outer.length + (this.#level ? 1 : 0) >= this.#bounds.depth) throw this.#fault('depth')
    let code = this.#text.charCodeAt(++this.#position)
    if (code <= space) code = this.#skipSpace()
    if (code === close) {
      this.#position++
      this.#add(container)
      return
    }
    const isDropped = this.#bounds.drops !== undefined && this.#isDropping
    const maxProperties = this.#level ? maxJsonProperties : (this.#bounds.fields ?? maxJsonProperties)
    if (this.#level) this.#outer.push(this.#level)
    this.#level = { container, isArray, isDropped, name: '', properties: 0, maxProperties }
  }

  /** Adds a whole value to its container, and closes all containers that end after it. */
  #add(value: unknown): void {
    let whole = value
    for (let level = this.#level; level; level = this.#level) {
      const { container, name } = level
      if (this.#bounds.drops === undefined || !this.#isDropping) {
        if (Array.isArray(container)) container.push(whole)
        else if (name === '__proto__') setProto(container, whole)
        else container[name] = whole
      }
      if (this.#goesOn(level)) return
      whole = container
      this.#level = this.#outer.pop()
    }
    if (this.#position < this.#text.length && !Number.isNaN(this.#skipSpace())) throw this.#fault('syntax')
    this.isDone = true
    this.value = whole
  }

  /** Reads a comma, or the end of a container. @returns whether another value follows */
  #goesOn({ container, isArray, properties }: Level): boolean {
    let code = this.#text.charCodeAt(this.#position)
    if (code <= space) code = this.#skipSpace()
    if (code === comma) {
      this.#position++
      return true
    }
    if (code !== (isArray ? closeBracket : closeBrace)) throw this.#fault('syntax')
    // If a name was repeated, the object has fewer keys than the text has names.
    if (this.#bounds.duplicates === 'refused' && properties > 0 && properties > Object.keys(container).length) {
      throw this.#fault('duplicate')
    }
    this.#position++
    return false
  }

  #readName(level: Level): void {
    let code = this.#text.charCodeAt(this.#position)
    if (code <= space) code = this.#skipSpace()
    if (code !== quote) throw this.#fault('syntax')
    const start = this.#position
    const short = this.#readShortString()
    const end = short === undefined ? endOfString(this.#text, start + 1, start + 1 + maxJsonNameLength) : start
    if (end === undefined) throw this.#fault('length', start)
    level.name = short ?? this.#readString(end)
    if (++level.properties > level.maxProperties) {
      throw this.#fault(level.maxProperties === maxJsonProperties ? 'count' : 'fields', start)
    }
    code = this.#text.charCodeAt(this.#position)
    if (code <= space) code = this.#skipSpace()
    if (code !== colon) throw this.#fault('syntax')
    this.#position++
  }

  /** Reads a string that is a value. A long string is only begun. */
  #readText(): void {
    const start = this.#position + 1
    const short = this.#readShortString()
    const end = short === undefined ? endOfString(this.#text, start, start + maxPieceLength) : start
    if (end === undefined) this.#longString = new LongJsonString(this.#text, start)
    else this.#add(short ?? this.#readString(end))
  }

  #readShortString(): string | undefined {
    const start = this.#position + 1
    const end = endOfShortString(this.#text, start)
    if (end === undefined) return undefined
    this.#position = end + 1
    return this.#text.slice(start, end)
  }

  #readPiece(long: LongJsonString): void {
    long.readPiece()
    if (long.fault !== undefined) throw this.#fault('syntax', long.fault)
    this.#position = long.position
    if (long.value === undefined) return
    this.#longString = undefined
    this.#add(this.#noted(long.value))
  }

  /** Reads the string that ends before `end`. */
  #readString(end: number): string {
    const start = this.#position
    const literal = this.#text.slice(start, end)
    try {
      const value: string = JSON.parse(literal)
      this.#position = end
      return this.#noted(value)
    } catch (error) {
      const position = positionIn(error)
      throw this.#fault('syntax', position === undefined ? end : start + position)
    }
  }

  /** Reports a string with a lone surrogate. @returns the string */
  #noted(value: string): string {
    if (this.#bounds.onLoneSurrogate && !value.isWellFormed()) this.#bounds.onLoneSurrogate()
    return value
  }

  #readScalar(code: number): unknown {
    const word = words.get(code)
    if (!word) return this.#readNumber()
    if (!this.#text.startsWith(word.text, this.#position)) throw this.#fault('syntax')
    this.#position += word.text.length
    return word.value
  }

  #readNumber(): number {
    const start = this.#position
    // A part of the text without a copy, so that the pattern does not search further.
    const [literal] = number.exec(this.#text.slice(start, start + maxJsonRun + 1)) ?? []
    if (literal === undefined) throw this.#fault('syntax')
    if (literal.length > maxJsonRun) throw this.#fault('length', start)
    this.#position += literal.length
    const value = Number(literal)
    if (this.#bounds.roundedIntegers === 'refused' && Number.isSafeInteger(value) && hasFraction(literal)) {
      throw this.#fault('number', start)
    }
    return value
  }

  /** Skips white space. @returns the code of the next character; NaN at the end */
  #skipSpace(): number {
    const start = this.#position
    let code = this.#text.charCodeAt(start)
    while (code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09) {
      code = this.#text.charCodeAt(++this.#position)
      if (this.#position - start > maxJsonRun) throw this.#fault('length', start)
    }
    return code
  }

  #fault(kind: JsonFaultKind, position = this.#position): JsonFault {
    return new JsonFault(kind, position)
  }
}

/** Makes `__proto__` an ordinary property, as JSON.parse does. An assignment would set the prototype. */
function setProto(container: Record<string, unknown>, value: unknown): void {
  Object.defineProperty(container, '__proto__', { value, writable: true, enumerable: true, configurable: true })
}

/** JSON's literal names by the code of their first letter. */
const words: ReadonlyMap<number, { readonly text: string; readonly value: boolean | null }> = new Map([
  [0x74, { text: 'true', value: true }],
  [0x66, { text: 'false', value: false }],
  [0x6e, { text: 'null', value: null }],
])

/** A number as in RFC 8259, section 6. The pattern never backtracks. */
const number = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/

/** Whether the exact value of a number's text is not an integer. */
function hasFraction(literal: string): boolean {
  const [, whole = '', fraction = '', exponent = '0'] = /^-?(\d+)(?:\.(\d+))?(?:[eE](.+))?$/.exec(literal) ?? []
  const integerDigits = Math.max(0, whole.length + Number(exponent))
  return /[1-9]/.test((whole + fraction).slice(integerDigits))
}

/**
 * The index after the quotation mark that ends a string; the length of the text if no mark ends the string.
 * @returns undefined for a string that goes on at `limit`
 */
function endOfString(text: string, start: number, limit: number): number | undefined {
  const end = text.indexOf('"', start)
  const last = Math.min(limit, text.length)
  if (end !== -1 && end <= last && text.charCodeAt(end - 1) !== backslash) return end + 1
  // A text may have a million escaped quotation marks. One loop over the characters is faster than an indexOf for each mark.
  for (let index = end === -1 || end > last ? last : start; index < last; index++) {
    const code = text.charCodeAt(index)
    if (code === quote) return index + 1
    if (code === backslash) index++
  }
  return last === text.length ? text.length : undefined
}
