import { maxJsonNameLength } from '../../json.ts'
import { spend } from '../../work/fuel.ts'

/** A JSON Schema, or a part of a schema, that is an object. */
export type Schema = Readonly<Record<string, unknown>>

/** The error for a schema whose value would be too large. */
export class SchemaTooLargeError extends Error {
  override readonly name = 'SchemaTooLargeError'
}

/** The most members of one object or array of a schema. OpenAI allows 5,000 properties in a schema. */
const maxMembers = 5000
/** The most types in one list. JSON Schema has seven types. */
const maxTypes = 20
/** Units of work to read or join a member. Large objects are slow to make and to read. */
const unitsOfMember = 20

/** Whether a JSON value is an object. */
export function isObject(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A keyword's value if it is a number; undefined for any other value. */
export function numberIn(schema: Schema, keyword: string): number | undefined {
  const value = schema[keyword]
  return typeof value === 'number' ? value : undefined
}

/** The items of a value if it is an array; else none. @throws SchemaTooLargeError for more than `maxMembers` */
export function itemsOf(value: unknown): readonly unknown[] {
  const items = Array.isArray(value) ? value : []
  countMembers(items.length)
  return items
}

/** A value if it is an object; else an empty object. @throws SchemaTooLargeError for more than `maxMembers` properties */
export function membersOf(value: unknown): Schema {
  const members = isObject(value) ? value : {}
  countMembers(Object.keys(members).length)
  return members
}

function countMembers(count: number): void {
  if (count > maxMembers) throw new SchemaTooLargeError(`a part of it has more than ${maxMembers} members`)
  spend(count * unitsOfMember)
}

/**
 * The names in the value of `required`.
 * @throws SchemaTooLargeError for a name that no property can have, because JSON with longer property names is refused
 */
export function requiredIn(schema: Schema): readonly string[] {
  const names = itemsOf(schema['required']).filter((name) => typeof name === 'string')
  for (const { length } of names) {
    if (length > maxJsonNameLength)
      throw new SchemaTooLargeError(`a name in a "required" in it has more than ${maxJsonNameLength} letters`)
    spend(length >> 6)
  }
  return names
}

/** The types of a schema. @throws SchemaTooLargeError for more than `maxTypes` */
export function typesIn({ type }: Schema): readonly string[] {
  const types = Array.isArray(type) ? itemsOf(type) : [type]
  if (types.length > maxTypes) throw new SchemaTooLargeError(`a "type" in it has more than ${maxTypes} types`)
  return types.filter((each) => typeof each === 'string')
}

/** Resolves a reference within the document: `#` or `#/$defs/name` (RFC 6901, section 6). Undefined if there is no such part. */
export function resolve(document: unknown, reference: string): unknown {
  spend(reference.length * unitsOfMember)
  const [start, ...steps] = reference.split('/')
  let part = start === '#' ? document : undefined
  for (const step of steps) {
    // Only ASCII letters are decoded, because other bytes may be no UTF-8.
    const name = step
      .replace(/%[0-7][\da-f]/gi, decodeURIComponent)
      .replaceAll('~1', '/')
      .replaceAll('~0', '~')
    part = typeof part === 'object' && part !== null && Object.hasOwn(part, name) ? Reflect.get(part, name) : undefined
  }
  return part
}

/** Joins two schemas into one that requires both. Of keywords that cannot be joined, the other's applies. */
export function join(one: Schema, other: Schema): Schema {
  membersOf(one)
  const joined = Object.entries(membersOf(other)).map(([keyword, value]): [string, unknown] => [
    keyword,
    Object.hasOwn(one, keyword) ? joinKeyword(keyword, one, other) : value,
  ])
  return { ...one, ...Object.fromEntries(joined) }
}

function joinKeyword(keyword: string, one: Schema, other: Schema): unknown {
  const [first, second] = [one[keyword], other[keyword]]
  if (typeof first === 'number' && typeof second === 'number') {
    if (/^(?:min|exclusiveMin)/.test(keyword)) return Math.max(first, second)
    if (/^(?:max|exclusiveMax)/.test(keyword)) return Math.min(first, second)
    return keyword === 'multipleOf' && second % first !== 0 ? first * second : second
  }
  switch (keyword) {
    case 'required':
      return [...new Set([...requiredIn(one), ...requiredIn(other)])]
    case 'enum': {
      const wanted = new Set(itemsOf(second))
      const both = itemsOf(first).filter((value) => wanted.has(value))
      spend(JSON.stringify(both).length)
      return both.length > 0 ? both : second
    }
    case 'type': {
      const types = typesIn(other)
      return typesIn(one).flatMap((type) => {
        if (types.includes(type) || (type === 'integer' && types.includes('number'))) return type
        return type === 'number' && types.includes('integer') ? 'integer' : []
      })
    }
    case 'properties': {
      const names = Object.entries(membersOf(second))
      const before = membersOf(first)
      const both = names.map(([name, value]): [string, unknown] => [
        name,
        Object.hasOwn(before, name) ? { allOf: [before[name], value] } : value,
      ])
      return { ...before, ...Object.fromEntries(both) }
    }
    case 'items':
    case 'additionalProperties':
      return { allOf: [first, second] }
    default:
      return second
  }
}
