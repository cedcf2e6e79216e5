import { setImmediate as yieldTurn } from 'node:timers/promises'
import { ApiError } from './errors.ts'

/*
 * CSV (RFC 4180) in UTF-8. A spreadsheet runs a text such as `=1+1` as a formula, so an apostrophe is written before it, and also
 * before a text that looks like the result. Numbers are left alone. The libraries are loaded when they are first needed.
 */

/** The most bytes of a row in a file that is read. */
const maxRowBytes = 256 * 1024
/** The bytes that are read in one turn of the event loop: some 2 ms. */
const portionBytes = 16 * 1024

/** A row of a file. */
export interface CsvRow {
  /** The number of the line on which the row begins, from 1. */
  readonly line: number
  readonly cells: readonly string[]
}

/** The value of a cell; null for an empty one. */
export type CsvCell = string | number | null

/** Makes a function that writes rows as CSV: CRLF after each row, and quotes only where needed. */
export async function loadCsvWriter(): Promise<(rows: readonly (readonly CsvCell[])[]) => string> {
  const { stringify } = await import('csv-stringify/sync')
  return (rows) =>
    stringify(
      rows.map((row) => row.map((cell) => (typeof cell === 'string' ? guarded(cell) : cell))),
      { record_delimiter: 'windows', quoted_match: /[\r\n]/ },
    )
}

function guarded(text: string): string {
  return /^'*[=+\-@\t\r]/.test(text) ? `'${text}` : text
}

/** The text of a cell, without the apostrophe that was written before it. */
export function unguarded(text: string): string {
  return /^'+[=+\-@\t\r]/.test(text) ? text.slice(1) : text
}

/**
 * Reads a CSV file in portions, with other requests between them. Line ends of all kinds and a byte order mark are accepted, and
 * blank lines are left out.
 * @returns the rows of each portion; the first row is the header
 * @throws ApiError 400 that names the line of the first fault
 */
export async function* readCsv(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<readonly CsvRow[]> {
  const { parse } = await import('csv-parse')
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let rows: CsvRow[] = []
  let line = 1
  let bytesOfRow = 0
  const take = (cells: readonly string[]): null => {
    if (cells.length > 1 || cells[0] !== '') rows.push({ line, cells })
    line += 1 + cells.reduce((sum, cell) => sum + lineBreaksIn(cell), 0)
    bytesOfRow = 0
    return null
  }
  const parser = parse({ bom: true, relax_column_count: true, record_delimiter: ['\r\n', '\n', '\r'], on_record: take })
  let fault: unknown
  parser.on('error', (error) => {
    fault = error
  })
  async function endOfPortion(): Promise<readonly CsvRow[]> {
    await yieldTurn()
    if (fault !== undefined) throw csvFault(line, problemOf(fault))
    if (bytesOfRow > maxRowBytes) throw csvFault(line, `the row has more than ${maxRowBytes} bytes. Shorten it`)
    const done = rows
    rows = []
    return done
  }
  for await (const portion of portionsOf(bytes)) {
    decode(decoder, portion, line)
    bytesOfRow += portion.length
    parser.write(portion)
    yield await endOfPortion()
  }
  decode(decoder, undefined, line)
  parser.end()
  yield await endOfPortion()
}

/** The 400 for a fault of a file. @param problem the end of the sentence, without its full stop */
export function csvFault(line: number, problem: string): ApiError {
  return new ApiError(400, 'invalid_csv', `Line ${line}: ${problem}.`)
}

async function* portionsOf(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  for await (const piece of bytes) {
    for (let at = 0; at < piece.length; at += portionBytes) {
      // A copy: the parser keeps the end of a portion, and a reader of a file writes over its bytes.
      yield Buffer.from(piece.subarray(at, at + portionBytes))
    }
  }
}

/** @throws ApiError 400 for bytes that are not UTF-8; undefined ends the text */
function decode(decoder: TextDecoder, bytes: Buffer | undefined, line: number): void {
  try {
    decoder.decode(bytes, { stream: bytes !== undefined })
  } catch {
    throw csvFault(line, 'here, or on one of the lines after it, the text is not UTF-8. Encode the file as UTF-8')
  }
}

function lineBreaksIn(text: string): number {
  return text.match(/\r\n|\r|\n/g)?.length ?? 0
}

function problemOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'CSV_QUOTE_NOT_CLOSED') return 'a quoted cell has no closing quotation mark. Add it'
  if (code === 'CSV_INVALID_CLOSING_QUOTE' || code === 'INVALID_OPENING_QUOTE') {
    return 'a quotation mark is inside of a cell. Put the whole cell in quotation marks, and write each one in it twice'
  }
  return 'the row is not valid CSV. Correct it'
}
