/**
 * A strict reader of JSON (RFC 8259). It refuses repeated names and too many values, which JSON.parse does not. JSON.parse also
 * misreads escaped names after a program has parsed a name with a backslash: https://github.com/nodejs/node/issues/63785. So
 * JSON.parse reads only single strings here.
 */

declare global {
  /** ECMAScript's proposal "JSON.parse source text access", which Node has from 22 on. */
  interface JSON {
    rawJSON(text: string): object
    isRawJSON(value: unknown): boolean
  }
}

/** The rules for a text. */
export interface JsonBounds {
  /** The maximum levels of nesting. */
  readonly depth: number
  /** Whether a repeated property is refused, or the last one replaces the earlier ones. */
  readonly duplicates: 'refused' | 'last'
  /** Whether to refuse a fraction that a double rounds to an integer. By default the number becomes the integer. */
  readonly roundedIntegers?: 'refused'
  /**
   * The fields of the outermost object whose numbers are read. In all other fields, a number that a double would round stays as it
   * was written. Without it, all numbers are read.
   */
  readonly numbersRead?: ReadonlySet<string> | undefined
  /** Makes the value of a number that stays as it was written; by default `JSON.rawJSON`. */
  readonly keepNumber?: (literal: string) => unknown
  /** Called for each string with a lone surrogate. Only an escape can make a lone surrogate. */
  readonly onLoneSurrogate?: () => void
  /** Names of properties. Their values are read, but not kept and not counted. */
  readonly drops?: ReadonlySet<string>
  /** The most properties of the outermost object. Without it, the object may have as many as each other object. */
  readonly fields?: number
  /** The number of values that several texts together may still have. Each value lowers the number by one. */
  readonly shared?: { left: number }
}

/** The faults of a text. `length` is a property name that is too long. `fields` is too many properties of the outermost object. */
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
/** The most fields of a request: the properties of its outermost object. OpenAI's requests have some 40 fields. */
export const maxRequestFields = 1000
/** The most characters of a property name. V8 hashes longer names by their length alone, so they would collide in objects. */
export const maxJsonNameLength = 16_000

/**
 * Reads a JSON text.
 * @throws JsonFault
 */
export function readJson(text: string, bounds: JsonBounds): unknown {
  return new Reader(text, bounds).read()
}

const space = 0x20
const quote = 0x22
const comma = 0x2c
const minus = 0x2d
const zero = 0x30
const colon = 0x3a
const openBracket = 0x5b
const backslash = 0x5c
const closeBracket = 0x5d
const openBrace = 0x7b
const closeBrace = 0x7d

/** A string of up to this length is read here. JSON.parse is faster with longer strings. */
const shortLength = 28

/** A number as in RFC 8259, section 6. The pattern never backtracks. */
const numberPattern = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y

/** Reads one text from its beginning to its end (recursive descent). */
class Reader {
  readonly #text: string
  readonly #bounds: JsonBounds
  #position = 0
  #depth = 0
  #values = 0
  /** Whether numbers of this field stay as they were written. */
  #keepsNumbers = false

  constructor(text: string, bounds: JsonBounds) {
    this.#text = text
    this.#bounds = bounds
  }

  read(): unknown {
    const value = this.#value()
    if (!Number.isNaN(this.#next())) throw this.#fault('syntax')
    return value
  }

  #value(): unknown {
    const code = this.#next()
    if (++this.#values > maxJsonValues) throw this.#fault('count')
    const { shared } = this.#bounds
    if (shared && --shared.left < 0) throw this.#fault('count')
    switch (code) {
      case quote:
        return this.#string()
      case openBrace:
        return this.#object()
      case openBracket:
        return this.#array()
      case 0x74:
        return this.#word('true', true)
      case 0x66:
        return this.#word('false', false)
      case 0x6e:
        return this.#word('null', null)
      default:
        return this.#number(code)
    }
  }

  #object(): Record<string, unknown> {
    const object: Record<string, unknown> = {}
    const { depth, fields = maxJsonProperties, duplicates } = this.#bounds
    const most = this.#depth === 0 ? fields : maxJsonProperties
    if (this.#depth++ >= depth) throw this.#fault('depth')
    this.#position++
    let properties = 0
    if (this.#next() === closeBrace) this.#position++
    else {
      do {
        const start = this.#position
        const name = this.#name()
        if (++properties > most) throw this.#fault(most === maxJsonProperties ? 'count' : 'fields', start)
        this.#property(object, name)
      } while (!this.#ends(closeBrace))
    }
    // If a name was repeated, the object has fewer keys than the text has names.
    if (duplicates === 'refused' && properties > 1 && properties > Object.keys(object).length) {
      throw this.#fault('duplicate', this.#position - 1)
    }
    this.#depth--
    return object
  }

  /** Reads the name of a property, and the colon behind it. */
  #name(): string {
    if (this.#next() !== quote) throw this.#fault('syntax')
    const start = this.#position
    const name = this.#string()
    if (this.#position - start - 2 >= maxJsonNameLength) throw this.#fault('length', start)
    if (this.#next() !== colon) throw this.#fault('syntax')
    this.#position++
    return name
  }

  /** Reads the value of a property. */
  #property(object: Record<string, unknown>, name: string): void {
    const { drops, numbersRead } = this.#bounds
    if (numbersRead && this.#depth === 1) this.#keepsNumbers = !numbersRead.has(name)
    if (drops?.has(name)) this.#dropped()
    else if (name === '__proto__') setProto(object, this.#value())
    else object[name] = this.#value()
  }

  #array(): unknown[] {
    const array: unknown[] = []
    if (this.#depth++ >= this.#bounds.depth) throw this.#fault('depth')
    this.#position++
    if (this.#next() === closeBracket) this.#position++
    else
      do array.push(this.#value())
      while (!this.#ends(closeBracket))
    this.#depth--
    return array
  }

  /** Reads a value without counting it. */
  #dropped(): void {
    const values = this.#values
    this.#values = Number.NEGATIVE_INFINITY
    this.#value()
    this.#values = values
  }

  /** Reads a comma, or the end of a container. @returns whether it was the end */
  #ends(close: number): boolean {
    const code = this.#next()
    if (code !== comma && code !== close) throw this.#fault('syntax')
    this.#position++
    return code === close
  }

  #string(): string {
    const text = this.#text
    const start = this.#position + 1
    const last = start + shortLength
    for (let index = start; index < last; index++) {
      const code = text.charCodeAt(index)
      if (code === quote) {
        this.#position = index + 1
        return text.slice(start, index)
      }
      // The character is an escape, a control character (a fault), or NaN (the end of the text).
      if (!(code >= space) || code === backslash) break
    }
    return this.#longString(start)
  }

  /** Reads a string that is long or has escapes. */
  #longString(start: number): string {
    const end = endOfString(this.#text, start)
    try {
      const value: string = JSON.parse(this.#text.slice(start - 1, end))
      this.#position = end
      if (this.#bounds.onLoneSurrogate && !value.isWellFormed()) this.#bounds.onLoneSurrogate()
      return value
    } catch (error) {
      const position = positionIn(error)
      throw this.#fault('syntax', position === undefined ? end : start - 1 + position)
    }
  }

  #word<T>(word: string, value: T): T {
    if (!this.#text.startsWith(word, this.#position)) throw this.#fault('syntax')
    this.#position += word.length
    return value
  }

  #number(first: number): unknown {
    numberPattern.lastIndex = this.#position
    const literal =
      first === minus || (first >= zero && first <= 0x39) ? numberPattern.exec(this.#text)?.[0] : undefined
    if (literal === undefined) throw this.#fault('syntax')
    const value = Number(literal)
    // Other integers of at most fifteen digits are never rounded.
    if (literal.length > 15 || value === 0 || !Number.isSafeInteger(value)) return this.#longNumber(literal, value)
    this.#position += literal.length
    return value
  }

  #longNumber(literal: string, value: number): unknown {
    const isRefused = this.#bounds.roundedIntegers === 'refused' && Number.isSafeInteger(value)
    const isKept = this.#keepsNumbers && isRounded(literal, value)
    if (!isKept && isRefused && isRounded(literal, value)) throw this.#fault('number')
    this.#position += literal.length
    return isKept ? (this.#bounds.keepNumber ?? JSON.rawJSON)(literal) : value
  }

  /** Skips white space. @returns the code of the next character; NaN at the end */
  #next(): number {
    const text = this.#text
    let code = text.charCodeAt(this.#position)
    while (code === space || code === 0x0a || code === 0x0d || code === 0x09) code = text.charCodeAt(++this.#position)
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

/** Whether the shortest text of the double `value` is another number than the text `literal`. */
function isRounded(literal: string, value: number): boolean {
  return decimalOf(literal) !== decimalOf(String(value))
}

/** A number's text in a form that is the same for all texts of the same number: its digits, and the power of ten behind them. */
function decimalOf(text: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = /^(-?)(\d+)(?:\.(\d+))?(?:e(.+))?$/i.exec(text) ?? []
  const digits = whole + fraction
  let start = 0
  let end = digits.length
  while (digits.charCodeAt(start) === zero) start++
  if (start === end) return text === 'Infinity' || text === '-Infinity' ? text : '0'
  while (digits.charCodeAt(end - 1) === zero) end--
  return `${sign}${digits.slice(start, end)}e${Number(exponent) - fraction.length + digits.length - end}`
}

/** The position that an error of JSON.parse names; undefined if the error names none. */
function positionIn(error: unknown): number | undefined {
  const digits = error instanceof Error ? /at position (\d+)/.exec(error.message)?.[1] : undefined
  return digits === undefined ? undefined : Number(digits)
}

/** The index after the quotation mark that ends a string; the length of the text if no mark ends the string. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start); end !== -1; end = text.indexOf('"', end + 1)) {
    let first = end
    while (first > start && text.charCodeAt(first - 1) === backslash) first--
    // The mark is escaped after an odd number of backslashes.
    if ((end - first) % 2 === 0) return end + 1
  }
  return text.length
}
