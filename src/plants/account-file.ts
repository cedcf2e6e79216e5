import { isUtf8 } from 'node:buffer'
import { AccessError } from '../access/access.ts'
import { ApiError } from '../errors.ts'
import { readJson } from '../json.ts'
import { counted } from '../text.ts'
import { checkedPlant } from './plant.ts'
import type { PortablePlant } from './rows.ts'

const format = 'conservatory-account'
const version = 1

/** The most bytes of an incomplete line that are held in memory. A plant's line is far shorter, even with escaped characters. */
const maxLineBytes = 1024 * 1024

/** The first line of the file. It has the number of plants, so that a truncated file is recognised. */
interface Header {
  readonly plants: number
}

/** The first line of an account's file, with its line end. */
export function headerLine(account: string, plants: number): string {
  return `${JSON.stringify({ object: 'account', format, version, account, plants })}\n`
}

/** The line of a plant, with its line end. */
export function plantLine({ id, name, tag }: PortablePlant): string {
  return `${JSON.stringify({ id, name, tag })}\n`
}

/** The line number of a plant, counted from 1. @param index the number of plants before it */
export function lineOf(index: number): number {
  return index + 2
}

/**
 * Reads an account's file, JSON lines with a header and then plants. The memory use does not grow with the file.
 * @param bytes the file, in pieces of any size
 * @returns the plants in the order of their lines, in batches
 * @throws AccessError that names the line of the first fault
 */
export async function* readAccountFile(bytes: AsyncIterable<Buffer>): AsyncGenerator<readonly PortablePlant[]> {
  let header: Header | undefined
  let number = 0
  // Only the last lines may be blank.
  let blanks = 0
  for await (const lines of linesOf(bytes)) {
    const plants: PortablePlant[] = []
    for (const line of lines) {
      if (line.trim() === '') {
        blanks++
        continue
      }
      if (blanks > 0) readLine('', header, number + 1)
      number++
      const plant = readLine(line, header, number)
      if ('plants' in plant) header = plant
      else plants.push(plant)
    }
    if (plants.length > 0) yield plants
  }
  header ??= readHeader('')
  checkCount(header.plants, number - 1)
}

/** @throws AccessError if the file has another number of plants than its first line announces */
function checkCount(announced: number, found: number): void {
  if (found === announced) return
  const cause = found < announced ? 'The file is incomplete.' : 'Lines were added to the file.'
  throw new AccessError(`The first line announces ${counted(announced, 'plant')}, but ${found} follow. ${cause}`)
}

function readLine(line: string, header: Header | undefined, number: number): Header | PortablePlant {
  return header ? readPlant(line, number) : readHeader(line)
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
  const { version: written, plants } = header
  if (written !== version) throw new AccessError(`Line 1: the version ${JSON.stringify(written)} is not known here.`)
  if (typeof plants !== 'number') throw new AccessError('Line 1: the number of plants is missing.')
  return { plants }
}

function readPlant(line: string, number: number): PortablePlant {
  const { id, name, tag } = fieldsOf(line) ?? {}
  if (!Number.isSafeInteger(id) || typeof id !== 'number') {
    throw new AccessError(`Line ${number}: a plant needs an id, a whole number from -(2^53-1) to 2^53-1.`)
  }
  if (typeof name !== 'string' || (tag !== undefined && typeof tag !== 'string')) {
    throw new AccessError(`Line ${number}: a plant needs a name, and its name and tag are texts.`)
  }
  try {
    return { ...checkedPlant({ name, ...(tag === undefined ? {} : { tag }) }), id }
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
