import { isUtf8 } from 'node:buffer'
import { AccessError } from '../access/access.ts'
import { ApiError } from '../errors.ts'
import type { Fields } from '../fields.ts'
import { readJson } from '../json.ts'
import { counted } from '../text.ts'
import { type Belonging, readBelonging } from './belongings.ts'
import { checkedPlant } from './plant.ts'
import type { PortablePlant } from './rows.ts'

const format = 'conservatory-account'
const version = 2

/** The most bytes of an incomplete line that are held in memory. All lines are shorter, even with escaped characters. */
const maxLineBytes = 1024 * 1024

/** The first line of the file. It has the number of the other lines, so that a truncated file is recognised. */
interface Header {
  readonly plants: number
  readonly belongings: number
}

/** Some lines of a file: first come all plants, then what belongs to them. */
export interface AccountLines {
  readonly plants: readonly PortablePlant[]
  readonly belongings: readonly Belonging[]
}

/** The first line of an account's file, with its line end. */
export function headerLine(account: string, plants: number, belongings = 0): string {
  return `${JSON.stringify({ object: 'account', format, version, account, plants, belongings })}\n`
}

/** The line of a plant, with its line end. */
export function plantLine({ id, name, tag, ...more }: PortablePlant): string {
  return `${JSON.stringify({ id, name, tag, ...more })}\n`
}

/**
 * Reads the plants of an account's file.
 * @param bytes the file, in pieces of any size
 * @returns the plants in the order of their lines, in batches
 * @throws AccessError that names the line of the first fault
 */
export async function* readAccountFile(bytes: AsyncIterable<Buffer>): AsyncGenerator<readonly PortablePlant[]> {
  for await (const { plants } of readLines(bytes)) if (plants.length > 0) yield plants
}

/**
 * Reads an account's file, JSON lines with a header, then plants, then what belongs to them. The memory use does not grow with the
 * file.
 * @throws AccessError that names the line of the first fault
 */
export async function* readLines(bytes: AsyncIterable<Buffer>): AsyncGenerator<AccountLines> {
  const reader = new LineReader()
  for await (const lines of linesOf(bytes)) {
    const read = lines.map((line) => reader.read(line)).filter((each) => each !== undefined)
    yield { plants: read.filter((each) => 'name' in each), belongings: read.filter((each) => 'object' in each) }
  }
  reader.end()
}

/** Reads the lines of a file, one after the other. */
class LineReader {
  #header: Header | undefined
  #number = 0
  #plants = 0
  #belongings = 0
  #isBlank = false

  /** @returns undefined for the header and for a blank line @throws AccessError that names the line */
  read(line: string): PortablePlant | Belonging | undefined {
    // Only the last lines may be blank.
    if (line.trim() === '') {
      this.#isBlank = true
      return undefined
    }
    const text = this.#isBlank ? '' : line
    this.#number++
    if (!this.#header) {
      this.#header = readHeader(text)
      return undefined
    }
    const read = readLine(text, this.#number)
    if ('object' in read) this.#belongings++
    else if (this.#belongings > 0)
      throw new AccessError(`Line ${this.#number}: the plants come before all other lines.`)
    else this.#plants++
    return read
  }

  /** Checks the end of the file. @throws AccessError if lines are missing, or too many */
  end(): void {
    const { plants, belongings } = this.#header ?? readHeader('')
    checkCount(plants, this.#plants, (count) => counted(count, 'plant'))
    checkCount(belongings, this.#belongings, (count) => `${counted(count, 'line')} of care and photos`)
  }
}

/** @throws AccessError if the file has another number of lines than its first line announces */
function checkCount(announced: number, found: number, what: (count: number) => string): void {
  if (found === announced) return
  const cause = found < announced ? 'The file is incomplete.' : 'Lines were added to the file.'
  throw new AccessError(`The first line announces ${what(announced)}, but ${found} follow. ${cause}`)
}

/** Splits a file into lines, without line feeds and the byte order mark. Yields one list for the lines that end in one piece. */
async function* linesOf(bytes: AsyncIterable<Buffer>): AsyncGenerator<readonly string[]> {
  let rest = Buffer.alloc(0)
  let number = 0
  for await (const piece of bytes) {
    const whole = rest.length === 0 ? piece : Buffer.concat([rest, piece])
    const end = whole.lastIndexOf('\n') + 1
    rest = Buffer.from(whole.subarray(end))
    const lines = end === 0 ? [] : decode(whole.subarray(0, end - 1), number)
    number += lines.length
    if (lines.length > 0) yield lines
    if (rest.length > maxLineBytes) throw new AccessError(`Line ${number + 1}: the line is longer than a plant can be.`)
  }
  if (rest.length > 0) yield decode(rest, number)
}

/** The lines of some bytes. @param before the number of lines before these bytes */
function decode(bytes: Buffer, before: number): readonly string[] {
  if (!isUtf8(bytes)) throw notUtf8(bytes, before)
  const text = bytes.toString('utf8')
  return (before === 0 ? text.replace(/^\uFEFF/, '') : text).split('\n')
}

function notUtf8(bytes: Buffer, before: number): AccessError {
  let number = before + 1
  for (let start = 0; ; number++) {
    const end = bytes.indexOf('\n', start)
    if (end === -1 || !isUtf8(bytes.subarray(start, end))) break
    start = end + 1
  }
  return new AccessError(`Line ${number}: the text is not UTF-8. Encode the file as UTF-8.`)
}

function readHeader(line: string): Header {
  const header = fieldsOf(line)
  if (header?.['format'] !== format) {
    throw new AccessError(`Line 1: this is not an account's file. Make one: conservatory accounts export`)
  }
  const { version: written, plants, belongings = 0 } = header
  if (written !== 1 && written !== version) {
    throw new AccessError(`Line 1: the version ${JSON.stringify(written)} is not known here.`)
  }
  if (typeof plants !== 'number' || typeof belongings !== 'number') {
    throw new AccessError('Line 1: the number of plants is missing.')
  }
  return { plants, belongings }
}

function readLine(line: string, number: number): PortablePlant | Belonging {
  const fields = fieldsOf(line) ?? {}
  return readBelonging(fields, number) ?? readPlant(fields, number)
}

function readPlant(fields: Fields, number: number): PortablePlant {
  const { id, name, tag, archived } = fields
  if (!Number.isSafeInteger(id) || typeof id !== 'number') {
    throw new AccessError(`Line ${number}: a plant needs an id, a whole number from -(2^53-1) to 2^53-1.`)
  }
  if (typeof name !== 'string' || (tag !== undefined && typeof tag !== 'string')) {
    throw new AccessError(`Line ${number}: a plant needs a name, and its name and tag are texts.`)
  }
  const text = (field: string) => {
    const value = fields[field]
    if (value === undefined || typeof value === 'string') return value
    throw new AccessError(`Line ${number}: "${field}" is not a text.`)
  }
  const count = (field: string) => {
    const value = fields[field]
    if (value === undefined) return {}
    if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0) return { [field]: value }
    throw new AccessError(`Line ${number}: "${field}" is not a whole number above 0.`)
  }
  try {
    const [species, place, light, acquired, notes] = ['species', 'place', 'light', 'acquired', 'notes'].map(text)
    const plant = { name, id, tag, species, place, light, acquired, notes, archived: archived === true }
    return { ...checkedPlant(plant), id, ...count('created'), ...count('updated'), ...count('version') }
  } catch (error) {
    if (error instanceof ApiError) throw new AccessError(`Line ${number}: ${error.message}`)
    throw error
  }
}

/** The JSON object on a line; undefined if the line is not a JSON object. */
function fieldsOf(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value = readJson(line, { depth: 100, duplicates: 'last' })
    return typeof value === 'object' && value !== null ? { ...value } : undefined
  } catch {
    return undefined
  }
}
