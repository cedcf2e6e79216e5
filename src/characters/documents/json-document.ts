import { type Fields, isFields } from '../../fields.ts'
import { JsonFault, maxJsonNameLength, maxJsonProperties, maxJsonValues, readJson } from '../../json.ts'
import { spend } from '../../work/fuel.ts'
import { CardError, type CardErrorCode } from './card-error.ts'

/** The most bytes of JSON that is read or written: about ten times the largest real card that was found. */
export const maxDocumentBytes = 16 * 1024 * 1024

/** The most levels of nesting, so that recursion over a card cannot exhaust the stack. */
const maxNesting = 200

const bounds = { depth: maxNesting, duplicates: 'last' } as const

/**
 * Reads one JSON object (RFC 8259), with or without a byte order mark.
 * @param fault the error code for bytes that are not a JSON object
 * @throws CardError with a message that quotes nothing of the document
 */
export function readJsonDocument(bytes: Buffer, fault: CardErrorCode = 'card_invalid'): Fields {
  checkSize(bytes.length)
  const document = parse(decode(bytes, fault), fault)
  if (!isFields(document))
    throw new CardError(fault, 'The card is JSON, but not an object. Send the card object itself.')
  return document
}

/**
 * Writes a JSON object, so that `readJsonDocument` reads the same values.
 * @throws CardError if the JSON would be too large or nested too deeply to be read again
 */
export function writeJsonDocument(document: Fields): Buffer {
  checkDepth(document, 1)
  const bytes = Buffer.from(JSON.stringify(document, keepNumber))
  checkSize(bytes.length)
  return bytes
}

function decode(bytes: Buffer, fault: CardErrorCode): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new CardError(fault, 'The card is not valid UTF-8. Save it as UTF-8.')
  }
}

/** Units of work for each value, besides its characters. */
const unitsOfValue = 20

function parse(text: string, fault: CardErrorCode): unknown {
  spend(text.length >> 2)
  const shared = { left: maxJsonValues + 1 }
  try {
    const value = readJson(text, { ...bounds, shared })
    spend((maxJsonValues - shared.left) * unitsOfValue)
    return value
  } catch (error) {
    if (error instanceof JsonFault) throw refusalOf(error, text, fault)
    throw error
  }
}

function refusalOf({ kind, position }: JsonFault, text: string, fault: CardErrorCode): CardError {
  if (kind === 'depth') return tooDeep()
  if (kind === 'count') {
    const message = `The card's JSON has more than ${maxJsonValues} values, or an object with more than ${maxJsonProperties} properties. Shorten it.`
    return new CardError('card_too_large', message)
  }
  const { line, column } = placeOf(position, text)
  const place = `line ${line}, column ${column}`
  if (kind === 'length') {
    const message = `The card's JSON has a property name of more than ${maxJsonNameLength} characters (${place}). Shorten it.`
    return new CardError('card_too_large', message)
  }
  return new CardError(fault, `The card is not valid JSON (${place}). Correct it.`)
}

/** The line and the column of a position, both from 1. */
function placeOf(position: number, text: string): { readonly line: number; readonly column: number } {
  let line = 1
  let start = 0
  for (let end = text.indexOf('\n'); end !== -1 && end < position; end = text.indexOf('\n', start)) {
    line++
    start = end + 1
  }
  return { line, column: position - start + 1 }
}

function tooDeep(): CardError {
  return new CardError('card_invalid', `The card's JSON is nested deeper than ${maxNesting} levels. Flatten it.`)
}

function checkDepth(value: object, depth: number): void {
  if (depth > maxNesting) throw tooDeep()
  for (const each of Object.values(value)) if (typeof each === 'object' && each !== null) checkDepth(each, depth + 1)
}

/** A value for `JSON.stringify`, which would write 0 and null for -0 and for infinite numbers (as 1e999). */
function keepNumber(_name: string, value: unknown): unknown {
  if (Object.is(value, -0)) return JSON.rawJSON('-0')
  if (value === Number.POSITIVE_INFINITY) return JSON.rawJSON('1e999')
  return value === Number.NEGATIVE_INFINITY ? JSON.rawJSON('-1e999') : value
}

function checkSize(bytes: number): void {
  if (bytes <= maxDocumentBytes) return
  throw new CardError('card_too_large', `The card's JSON is larger than ${maxDocumentBytes} bytes. Shorten it.`)
}
