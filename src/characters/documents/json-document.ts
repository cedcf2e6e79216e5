import { type Fields, isFields } from '../../fields.ts'
import { JsonFault, mostJsonProperties, mostJsonValues, readJson } from '../../json.ts'
import { CardError, type CardErrorCode } from './card-error.ts'

/** Bytes of the largest JSON that is read or written: about ten times the largest real card that was found. */
export const largestDocument = 16 * 1024 * 1024

/** Levels of nesting up to which JSON is read, so that no walk over a card can exhaust the stack. */
const deepestNesting = 200

const bounds = { depth: deepestNesting, duplicates: 'last' } as const

/**
 * Reads one JSON object (RFC 8259), with or without a byte order mark.
 * The refusals quote nothing of it.
 * @param fault the code of what is no JSON object
 * @throws CardError
 */
export function readJsonDocument(bytes: Buffer, fault: CardErrorCode = 'card_invalid'): Fields {
  checkSize(bytes)
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
  return bytes
}

/** As `JSON.stringify`, but for the two numbers that JSON can say and it does not: -0, and what is out of range. */
function written(value: unknown, depth = 1): string {
  if (typeof value === 'object' && value !== null && depth > deepestNesting) throw tooDeep()
  if (Array.isArray(value)) return `[${value.map((item) => written(item, depth + 1)).join()}]`
  if (isFields(value)) {
    return `{${Object.entries(value)
      .map(([name, item]) => `${JSON.stringify(name)}:${written(item, depth + 1)}`)
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
    return readJson(text, bounds)
  } catch (error) {
    if (error instanceof JsonFault) throw refusalOf(error, text, fault)
    throw error
  }
}

function refusalOf({ kind, position }: JsonFault, text: string, fault: CardErrorCode): CardError {
  if (kind === 'depth') return tooDeep()
  if (kind === 'count') {
    const message = `The card's JSON has more than ${mostJsonValues} values, or an object with more than ${mostJsonProperties}. Shorten it.`
    return new CardError('card_too_large', message)
  }
  const lines = text.slice(0, position).split('\n')
  const place = `line ${lines.length}, column ${(lines.at(-1) ?? '').length + 1}`
  return new CardError(fault, `The card is not valid JSON (${place}). Correct it.`)
}

function tooDeep(): CardError {
  return new CardError('card_invalid', `The card's JSON is nested deeper than ${deepestNesting} levels. Flatten it.`)
}

function checkSize(bytes: Buffer): void {
  if (bytes.length <= largestDocument) return
  throw new CardError('card_too_large', `The card's JSON is larger than ${largestDocument} bytes. Shorten it.`)
}
