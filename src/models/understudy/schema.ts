/** A JSON value. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }

/** A JSON Schema, or a part of one, that is an object. */
export type Schema = Readonly<Record<string, unknown>>

/** A schema that asks for a value too large to make. */
export class SchemaTooLargeError extends Error {
  override readonly name = 'SchemaTooLargeError'
}

/** Whether a JSON value is an object. */
export function isObject(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A keyword's value when it is a number; 0 and the like included. */
export function numberIn(schema: Schema, keyword: string): number | undefined {
  const value = schema[keyword]
  return typeof value === 'number' ? value : undefined
}

/** A keyword's array; empty when there is none. */
export function listIn(schema: Schema, keyword: string): readonly unknown[] {
  const value = schema[keyword]
  return Array.isArray(value) ? value : []
}

/** A keyword's object; empty when there is none. */
export function objectIn(schema: Schema, keyword: string): Schema {
  const value = schema[keyword]
  return isObject(value) ? value : {}
}

/** What a schema refers to within its document (`#`, `#/$defs/name`); undefined when it is not there. */
export function resolve(document: unknown, reference: string): unknown {
  if (!reference.startsWith('#')) return undefined
  return reference
    .slice(1)
    .split('/')
    .slice(1)
    .map((step) => decodeStep(step).replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce<unknown>((part, step) => {
      if (Array.isArray(part)) return part[Number(step)]
      return isObject(part) && Object.hasOwn(part, step) ? part[step] : undefined
    }, document)
}

function decodeStep(step: string): string {
  try {
    return decodeURIComponent(step)
  } catch {
    return step
  }
}

/** One schema that asks for what both ask for, as far as their keywords can be joined. */
export function join(one: Schema, other: Schema): Schema {
  const joined: Record<string, unknown> = { ...one }
  for (const [keyword, value] of Object.entries(other)) {
    joined[keyword] = Object.hasOwn(one, keyword) ? joinKeyword(keyword, one[keyword], value) : value
  }
  return joined
}

function joinKeyword(keyword: string, one: unknown, other: unknown): unknown {
  if (typeof one === 'number' && typeof other === 'number') {
    if (/^(min|exclusiveMin)/.test(keyword)) return Math.max(one, other)
    if (/^(max|exclusiveMax)/.test(keyword)) return Math.min(one, other)
    if (keyword === 'multipleOf')
      return Number.isInteger(one / other) ? one : Number.isInteger(other / one) ? other : one * other
  }
  if (keyword === 'required') return [...new Set([...asList(one), ...asList(other)])]
  if (keyword === 'allOf') return [...asList(one), ...asList(other)]
  if (keyword === 'enum') return asList(one).filter((value) => includesJson(asList(other), value))
  if (keyword === 'type')
    return asTypes(one).filter(
      (type) => asTypes(other).includes(type) || (type === 'integer' && asTypes(other).includes('number')),
    )
  if (keyword === 'properties' && isObject(one) && isObject(other)) {
    const names = Object.keys(other).filter((name) => Object.hasOwn(one, name))
    return { ...one, ...other, ...Object.fromEntries(names.map((name) => [name, { allOf: [one[name], other[name]] }])) }
  }
  if (keyword === 'items' || keyword === 'additionalProperties') return { allOf: [one, other] }
  return other
}

function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

function asTypes(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [value]
}

function includesJson(values: readonly unknown[], wanted: unknown): boolean {
  return values.some((value) => JSON.stringify(value) === JSON.stringify(wanted))
}
