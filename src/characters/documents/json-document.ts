import { type Fields, isFields } from '../../fields.ts'
import { CardError, type CardErrorCode } from './card-error.ts'

/** Bytes of the largest JSON that is read or written: about ten times the largest real card that was found. */
export const largestDocument = 16 * 1024 * 1024

/** Levels of nesting up to which JSON is read, so that no walk over a card can exhaust the stack. */
const deepestNesting = 200

const ascii = {
  quote: 0x22,
  openBracket: 0x5b,
  backslash: 0x5c,
  closeBracket: 0x5d,
  openBrace: 0x7b,
  closeBrace: 0x7d,
}

/**
 * Reads one JSON object (RFC 8259), with or without a byte order mark.
 * The refusals quote nothing and have no cause, since the engine's own messages quote the text.
 * @param fault the code of what is no JSON object
 * @throws CardError
 */
export function readJsonDocument(bytes: Buffer, fault: CardErrorCode = 'card_invalid'): Fields {
  checkSize(bytes)
  checkNesting(bytes)
  const document = parse(decode(bytes, fault), fault)
  if (!isFields(document))
    throw new CardError(fault, 'The card is JSON, but not an object. Send the card object itself.')
  return document
}

/**
 * Writes a JSON object so that reading it gives the same values.
 * @throws CardError for one that could not be read again, being too large or nested too deeply
 */
export function writeJsonDocument(document: Fields): Buffer {
  const bytes = Buffer.from(written(document))
  checkSize(bytes)
  checkNesting(bytes)
  return bytes
}

/** As `JSON.stringify`, but for the two numbers that JSON can say and it does not: -0, and what is out of range. */
function written(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(written).join()}]`
  if (isFields(value)) {
    return `{${Object.entries(value)
      .map(([name, item]) => `${JSON.stringify(name)}:${written(item)}`)
      .join()}}`
  }
  if (Object.is(value, -0)) return '-0'
  if (value === Number.POSITIVE_INFINITY) return '1e999'
  if (value === Number.NEGATIVE_INFINITY) return '-1e999'
  return JSON.stringify(value)
}

function decode(bytes: Buffer, fault: CardErrorCode): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new CardError(fault, 'The card is not valid UTF-8. Save it as UTF-8.')
  }
}

function parse(text: string, fault: CardErrorCode): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new CardError(fault, `The card is not valid JSON${placeOf(error)}. Correct it.`)
  }
}

/** Where the engine stumbled: numbers only, since the rest of its message may quote the card. */
function placeOf(error: unknown): string {
  const message = error instanceof Error ? error.message : ''
  const [, line, column] = / \(line (\d+) column (\d+)\)$/.exec(message) ?? []
  return line === undefined ? '' : ` (line ${line}, column ${column})`
}

function checkSize(bytes: Buffer): void {
  if (bytes.length <= largestDocument) return
  throw new CardError('card_too_large', `The card's JSON is larger than ${largestDocument} bytes. Shorten it.`)
}

/** Counts brackets outside of strings, before anything recursive sees the text. UTF-8 has no ASCII inside characters. */
function checkNesting(bytes: Buffer): void {
  let depth = 0
  for (let index = 0; index < bytes.length; index++) {
    const byte = bytes[index]
    if (byte === ascii.quote) index = endOfString(bytes, index)
    else if (byte === ascii.openBracket || byte === ascii.openBrace) depth++
    else if (byte === ascii.closeBracket || byte === ascii.closeBrace) depth--
    if (depth > deepestNesting) {
      throw new CardError('card_invalid', `The card's JSON is nested deeper than ${deepestNesting} levels. Flatten it.`)
    }
  }
}

/** The index of the quotation mark that ends a string; behind the last byte where nothing ends it. */
function endOfString(bytes: Buffer, start: number): number {
  let index = start + 1
  while (index < bytes.length && bytes[index] !== ascii.quote) index += bytes[index] === ascii.backslash ? 2 : 1
  return index
}
