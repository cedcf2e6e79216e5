import type { Steps } from './step-budget.ts'

/** A JSON value. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }

/** A JSON Schema, or a part of one, that is an object. */
export type Schema = Readonly<Record<string, unknown>>

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
export function join(one: Schema, other: Schema, steps: Steps): Schema {
  const added = Object.entries(other)
  steps.take(Object.keys(one).length + added.length)
  const joined: Record<string, unknown> = { ...one }
  for (const [keyword, value] of added) {
    joined[keyword] = Object.hasOwn(one, keyword) ? joinKeyword(keyword, one[keyword], value, steps) : value
  }
  return joined
}

function joinKeyword(keyword: string, one: unknown, other: unknown, steps: Steps): unknown {
  const number = typeof one === 'number' && typeof other === 'number' ? joinNumbers(keyword, one, other) : undefined
  if (number !== undefined) return number
  steps.take(sizeOf(one) + sizeOf(other))
  switch (keyword) {
    case 'required':
      return [...new Set([...asList(one), ...asList(other)])]
    case 'allOf':
      return [...asList(one), ...asList(other)]
    case 'enum':
      return joinEnums(asList(one), asList(other), steps)
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

/** The number that holds where both do; undefined where the keyword is none that numbers are joined for. */
function joinNumbers(keyword: string, one: number, other: number): number | undefined {
  if (/^(min|exclusiveMin)/.test(keyword)) return Math.max(one, other)
  if (/^(max|exclusiveMax)/.test(keyword)) return Math.min(one, other)
  if (keyword !== 'multipleOf') return undefined
  if (Number.isInteger(one / other)) return one
  return Number.isInteger(other / one) ? other : one * other
}

function joinEnums(one: readonly unknown[], other: readonly unknown[], steps: Steps): readonly unknown[] {
  const wanted = new Set(other.map((value) => writtenOf(value, steps)))
  return one.filter((value) => wanted.has(writtenOf(value, steps)))
}

function joinTypes(one: readonly unknown[], wanted: ReadonlySet<unknown>): readonly unknown[] {
  return one.filter((type) => wanted.has(type) || (type === 'integer' && wanted.has('number')))
}

function joinProperties(one: Schema, other: Schema): Schema {
  const names = Object.keys(other).filter((name) => Object.hasOwn(one, name))
  return { ...one, ...other, ...Object.fromEntries(names.map((name) => [name, { allOf: [one[name], other[name]] }])) }
}

/** How many items or properties a value has itself. */
function sizeOf(value: unknown): number {
  if (Array.isArray(value)) return value.length
  return isObject(value) ? Object.keys(value).length : 1
}

function writtenOf(value: unknown, steps: Steps): string {
  const written = JSON.stringify(value)
  steps.take(written.length)
  return written
}

function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

function asTypes(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [value]
}
