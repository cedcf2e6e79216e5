import { AccessError } from '../access/access.ts'
import { ApiError } from '../errors.ts'
import { readJson } from '../json.ts'
import { counted } from '../text.ts'
import { checkedPlant } from './plant.ts'
import type { PortablePlant } from './portable.ts'

const format = 'conservatory-account'
const version = 1

/** What the first line of the file tells. */
interface Header {
  readonly format: typeof format
  readonly version: number
  /** How many lines follow, each a plant: a file that was cut off is told from a whole one. */
  readonly plants: number
}

/** The first line of an account's file, with its line end. */
export function headerLine(account: string, plants: number): string {
  return `${JSON.stringify({ object: 'account', format, version, account, plants })}\n`
}

/** The line of a plant, with its line end. */
export function plantLine({ id, name, tag }: PortablePlant): string {
  return `${JSON.stringify({ id, name, ...(tag === undefined ? {} : { tag }) })}\n`
}

/**
 * Reads an account's file: JSON lines, a header and then plants.
 * @throws AccessError that names the line of the first fault
 */
export function readAccountFile(text: string): readonly PortablePlant[] {
  const lines = text.replace(/^\uFEFF/, '').split(/\r?\n/)
  while (lines.at(-1)?.trim() === '') lines.pop()
  const header = readHeader(lines[0] ?? '')
  const plants = lines.slice(1).map((line, index) => readPlant(line, index + 2))
  if (plants.length !== header.plants) {
    throw new AccessError(
      `The first line tells of ${counted(header.plants, 'plant')}, but the number of those that follow is ${plants.length}. The file is not whole.`,
    )
  }
  return plants
}

function readHeader(line: string): Header {
  const header = fieldsOf(line)
  if (header?.['format'] !== format) {
    throw new AccessError(`Line 1: this is not the file of an account. Make one: conservatory accounts export`)
  }
  const { version: written, plants } = header
  if (written !== version) throw new AccessError(`Line 1: the version ${JSON.stringify(written)} is not known here.`)
  if (typeof plants !== 'number') throw new AccessError('Line 1: it does not tell how many plants follow.')
  return { format, version, plants }
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

/** The JSON object on a line; undefined where there is none. */
function fieldsOf(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value = readJson(line, { depth: 100, duplicates: 'last' })
    return typeof value === 'object' && value !== null ? { ...value } : undefined
  } catch {
    return undefined
  }
}
