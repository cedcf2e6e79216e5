import { maxJsonNameLength } from '../../json.ts'
import { spend } from '../../work/fuel.ts'

/** A JSON value. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }

/** A JSON Schema, or a part of a schema, that is an object. */
export type Schema = Readonly<Record<string, unknown>>

/** The error for a schema whose value would be too large. */
export class SchemaTooLargeError extends Error {
  override readonly name = 'SchemaTooLargeError'
}

/** The most members of one object or array of a schema. OpenAI allows 5,000 properties in a schema. */
const maxMembers = 5000
const maxReferenceLength = 10_000
/** Units of work to read or copy a member. */
const unitsOfMember = 10
/** Units of work to join a property, and to search a definition for an anchor. Large objects are slow to make and to read. */
const unitsOfProperty = 80

/** Whether a JSON value is an object. */
export function isObject(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A keyword's value if it is a number; undefined for any other value. */
export function numberIn(schema: Schema, keyword: string): number | undefined {
  const value = schema[keyword]
  return typeof value === 'number' ? value : undefined
}

/** A keyword's array; empty if its value is no array. */
export function listIn(schema: Schema, keyword: string): readonly unknown[] {
  return asList(schema[keyword])
}

/** A keyword's object; empty if its value is no object. */
export function objectIn(schema: Schema, keyword: string): Schema {
  const value = schema[keyword]
  if (!isObject(value)) return {}
  membersOf(value)
  return value
}

/**
 * The number of direct members of an array or an object; 1 for another value.
 * @throws SchemaTooLargeError for more than `maxMembers`
 */
export function membersOf(value: unknown): number {
  const count = Array.isArray(value) ? value.length : isObject(value) ? Object.keys(value).length : 1
  if (count > maxMembers) throw new SchemaTooLargeError(`a part of it has more than ${maxMembers} members`)
  return count
}

/** The most types in one list. JSON Schema has seven types. */
const maxTypes = 20
/** The most letters of a type. The longest type of JSON Schema is `boolean`. */
const maxTypeLength = 100

/**
 * A value as a list of types: a single type becomes a list of one.
 * @throws SchemaTooLargeError for more than `maxTypes`, or for too long a type
 */
export function asTypes(value: unknown): readonly unknown[] {
  const types = Array.isArray(value) ? asList(value) : [value]
  if (types.length > maxTypes) throw new SchemaTooLargeError(`a "type" in it has more than ${maxTypes} types`)
  if (types.some((type) => typeof type === 'string' && type.length > maxTypeLength))
    throw new SchemaTooLargeError(`a "type" in it has more than ${maxTypeLength} letters`)
  return types
}

/**
 * The names in the value of `required`.
 * @throws SchemaTooLargeError for a name that no property can have, because JSON with longer property names is refused
 */
export function asNames(required: unknown): readonly string[] {
  const names = asList(required).filter((name) => typeof name === 'string')
  if (names.some(({ length }) => length > maxJsonNameLength))
    throw new SchemaTooLargeError(`a name in a "required" in it has more than ${maxJsonNameLength} letters`)
  return names
}

/**
 * Resolves a reference within the document: `#`, `#/$defs/name`, or `#name` for the `$anchor` of a definition. Undefined if there
 * is no such part.
 * @throws SchemaTooLargeError for too long a reference
 */
export function resolve(document: unknown, reference: string): unknown {
  spend(reference.length)
  if (!reference.startsWith('#')) return undefined
  if (reference.length > maxReferenceLength) throw new SchemaTooLargeError('a reference in it is too long')
  const [anchor = '', ...steps] = reference.slice(1).split('/')
  if (anchor !== '') return steps.length === 0 ? anchored(document, anchor) : undefined
  return steps
    .map((step) => decodeStep(step).replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce<unknown>((part, step) => {
      if (Array.isArray(part)) return part[Number(step)]
      return isObject(part) && Object.hasOwn(part, step) ? part[step] : undefined
    }, document)
}

function anchored(document: unknown, anchor: string): unknown {
  if (!isObject(document)) return undefined
  const definitions = ['$defs', 'definitions'].flatMap((keyword) => Object.values(objectIn(document, keyword)))
  spend(unitsOfProperty * definitions.length)
  return definitions.find((definition) => isObject(definition) && definition['$anchor'] === anchor)
}

function decodeStep(step: string): string {
  try {
    return decodeURIComponent(step)
  } catch {
    return step
  }
}

/** Joins two schemas into one schema that requires both. Keywords that cannot be joined are not joined. */
export function join(one: Schema, other: Schema): Schema {
  spend(unitsOfMember * (membersOf(one) + membersOf(other)))
  const changes: [keyword: string, value: unknown][] = []
  for (const [keyword, value] of Object.entries(other)) {
    changes.push([keyword, Object.hasOwn(one, keyword) ? joinKeyword(keyword, one[keyword], value) : value])
  }
  return { ...one, ...Object.fromEntries(changes) }
}

function joinKeyword(keyword: string, one: unknown, other: unknown): unknown {
  const number = typeof one === 'number' && typeof other === 'number' ? joinNumbers(keyword, one, other) : undefined
  if (number !== undefined) return number
  spend(unitsOfMember * (membersOf(one) + membersOf(other)))
  switch (keyword) {
    case 'required':
      return joinNames([...asNames(one), ...asNames(other)])
    case 'allOf':
      return [...asList(one), ...asList(other)]
    case 'enum':
      return joinEnums(asList(one), asList(other))
    case 'type':
      return joinTypes(asTypes(one), new Set(asTypes(other)))
    case 'properties':
      return isObject(one) && isObject(other) ? joinProperties(one, other) : other
    case 'items':
    case 'additionalProperties':
      return { allOf: [one, other] }
    default:
      return other
  }
}

/** The bound or the multiple that satisfies both schemas; undefined for other keywords. */
function joinNumbers(keyword: string, one: number, other: number): number | undefined {
  if (/^(min|exclusiveMin)/.test(keyword)) return Math.max(one, other)
  if (/^(max|exclusiveMax)/.test(keyword)) return Math.min(one, other)
  return keyword === 'multipleOf' ? commonMultiple(one, other) : undefined
}

/** The most decimals of a fraction whose multiples are computed. With more decimals, the scaled integers would lose digits. */
const maxDecimals = 9

/** The lowest common multiple of two decimal fractions. If it is not found, the product of the two numbers. */
function commonMultiple(one: number, other: number): number {
  for (let scale = 1; scale <= 10 ** maxDecimals; scale *= 10) {
    const [first, second] = [Math.round(one * scale), Math.round(other * scale)]
    if (first / scale !== one || second / scale !== other) continue
    let [divisor, rest] = [first, second]
    while (rest !== 0) [divisor, rest] = [rest, divisor % rest]
    return ((first / divisor) * second) / scale
  }
  return one * other
}

/** The different names among these. */
function joinNames(names: readonly string[]): readonly string[] {
  spend(names.reduce((units, { length }) => units + (length >> 6), 0))
  return [...new Set(names)]
}

function joinEnums(one: readonly unknown[], other: readonly unknown[]): readonly unknown[] {
  const wanted = new Set<string>()
  for (const value of other) wanted.add(writtenOf(value))
  const joined: unknown[] = []
  for (const value of one) if (wanted.has(writtenOf(value))) joined.push(value)
  return joined
}

/** The types that both schemas allow. An integer is also a number. */
function joinTypes(one: readonly unknown[], wanted: ReadonlySet<unknown>): readonly unknown[] {
  return one.flatMap((type) => {
    if (wanted.has(type) || (type === 'integer' && wanted.has('number'))) return [type]
    return type === 'number' && wanted.has('integer') ? ['integer'] : []
  })
}

function joinProperties(one: Schema, other: Schema): Schema {
  spend(unitsOfProperty * (membersOf(one) + membersOf(other)))
  const joined = new Map(Object.entries(one))
  for (const [name, value] of Object.entries(other)) {
    joined.set(name, joined.has(name) ? { allOf: [joined.get(name), value] } : value)
  }
  return Object.fromEntries(joined)
}

function writtenOf(value: unknown): string {
  checkLetters(value)
  const written = JSON.stringify(value)
  spend(unitsOfMember + written.length)
  return written
}

/** Maximum letters of a made value as JSON. */
export const maxLetters = 100_000

/**
 * The approximate number of letters of a value as JSON.
 * @throws SchemaTooLargeError for more than `maxLetters`
 */
export function checkLetters(value: unknown): number {
  let letters = 0
  const open = [value]
  while (open.length > 0) {
    const each = open.pop()
    letters += typeof each === 'string' ? each.length : lettersOfPart
    if (letters + open.length > maxLetters) throw new SchemaTooLargeError('a value in it is too large')
    for (const part of partsOf(each)) open.push(part)
  }
  return letters
}

/** The items of an array, or the names and values of an object. */
function partsOf(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return asList(value)
  return isObject(value) && membersOf(value) > 0 ? Object.entries(value).flat() : []
}

/**
 * Each part of a value counts as so many letters, even without a text, because making, writing and tokenizing a part takes time.
 */
export const lettersOfPart = 5

/** The value if it is an array; an empty array for any other value. */
function asList(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) return []
  membersOf(value)
  return value
}
