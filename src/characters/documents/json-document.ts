import { freeUnlessView } from '../../bytes.ts'
import { type Fields, isFields } from '../../fields.ts'
import { JsonFault, maxJsonNameLength, maxJsonProperties, maxJsonValues, readJson } from '../../json.ts'
import { jsonBytes } from '../../json-writer.ts'
import { type Steps, workAtOnce } from '../../work.ts'
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
export function* jsonDocumentSteps(bytes: Buffer, fault: CardErrorCode = 'card_invalid'): Steps<Fields> {
  checkSize(bytes.length)
  return yield* readText(decode(bytes, fault), fault)
}

/**
 * Reads a JSON object that is a part of a file, or was unpacked from the file. Unpacked bytes have their own memory, which is
 * freed after the bytes are decoded.
 * @throws CardError as `jsonDocumentSteps`
 */
export function* documentInFile(bytes: Buffer, file: Buffer, fault: CardErrorCode = 'card_invalid'): Steps<Fields> {
  checkSize(bytes.length)
  const text = decode(bytes, fault)
  freeUnlessView(bytes, file)
  return yield* readText(text, fault)
}

function* readText(text: string, fault: CardErrorCode): Steps<Fields> {
  yield text.length >> 3
  const document = yield* parse(text, fault)
  if (!isFields(document))
    throw new CardError(fault, 'The card is JSON, but not an object. Send the card object itself.')
  return document
}

/** Runs `jsonDocumentSteps` without interruption, for commands and for files of the operator. */
export function readJsonDocument(bytes: Buffer): Fields {
  return workAtOnce().run('card', jsonDocumentSteps(bytes))
}

/**
 * Writes a JSON object, so that `jsonDocumentSteps` reads the same values.
 * @throws CardError if the JSON would be too large or nested too deeply to be read again
 */
export function writeJsonDocument(document: Fields): Steps<Buffer> {
  return jsonBytes(document, { checkBytes: checkSize, checkDepth, keepsNumbers: true })
}

function decode(bytes: Buffer, fault: CardErrorCode): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new CardError(fault, 'The card is not valid UTF-8. Save it as UTF-8.')
  }
}

function* parse(text: string, fault: CardErrorCode): Steps<unknown> {
  try {
    return readJson(text, bounds)
  } catch (error) {
    if (error instanceof JsonFault) throw yield* refusalOf(error, text, fault)
    throw error
  }
}

function* refusalOf({ kind, position }: JsonFault, text: string, fault: CardErrorCode): Steps<CardError> {
  if (kind === 'depth') return tooDeep()
  if (kind === 'count') {
    const message = `The card's JSON has more than ${maxJsonValues} values, or an object with more than ${maxJsonProperties} properties. Shorten it.`
    return new CardError('card_too_large', message)
  }
  const { line, column } = yield* placeOf(position, text)
  const place = `line ${line}, column ${column}`
  if (kind === 'length') {
    const message = `The card's JSON has a property name of more than ${maxJsonNameLength} characters (${place}). Shorten it.`
    return new CardError('card_too_large', message)
  }
  return new CardError(fault, `The card is not valid JSON (${place}). Correct it.`)
}

/** Characters in which one step counts the lines. */
const lengthOfStep = 64 * 1024

/** The line and the column of a position, both from 1. It takes steps, because a text may have millions of lines. */
function* placeOf(position: number, text: string): Steps<{ readonly line: number; readonly column: number }> {
  let line = 1
  let start = 0
  for (let from = 0; from < position; from += lengthOfStep) {
    const piece = text.slice(from, Math.min(position, from + lengthOfStep))
    for (let end = piece.indexOf('\n'); end !== -1; end = piece.indexOf('\n', end + 1)) {
      line++
      start = from + end + 1
    }
    yield lengthOfStep
  }
  return { line, column: position - start + 1 }
}

function tooDeep(): CardError {
  return new CardError('card_invalid', `The card's JSON is nested deeper than ${maxNesting} levels. Flatten it.`)
}

function checkDepth(depth: number): void {
  if (depth > maxNesting) throw tooDeep()
}

function checkSize(bytes: number): void {
  if (bytes <= maxDocumentBytes) return
  throw new CardError('card_too_large', `The card's JSON is larger than ${maxDocumentBytes} bytes. Shorten it.`)
}
