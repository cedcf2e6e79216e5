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
  if (typeof one === 'number' && typeof other === 'number') {
    if (/^(min|exclusiveMin)/.test(keyword)) return Math.max(one, other)
    if (/^(max|exclusiveMax)/.test(keyword)) return Math.min(one, other)
    if (keyword === 'multipleOf')
      return Number.isInteger(one / other) ? one : Number.isInteger(other / one) ? other : one * other
  }
  steps.take(sizeOf(one) + sizeOf(other))
  if (keyword === 'required') return [...new Set([...asList(one), ...asList(other)])]
  if (keyword === 'allOf') return [...asList(one), ...asList(other)]
  if (keyword === 'enum') {
    const wanted = new Set(asList(other).map((value) => writtenOf(value, steps)))
    return asList(one).filter((value) => wanted.has(writtenOf(value, steps)))
  }
  if (keyword === 'type') {
    const wanted = new Set(asTypes(other))
    return asTypes(one).filter((type) => wanted.has(type) || (type === 'integer' && wanted.has('number')))
  }
  if (keyword === 'properties' && isObject(one) && isObject(other)) {
    const names = Object.keys(other).filter((name) => Object.hasOwn(one, name))
    return { ...one, ...other, ...Object.fromEntries(names.map((name) => [name, { allOf: [one[name], other[name]] }])) }
  }
  if (keyword === 'items' || keyword === 'additionalProperties') return { allOf: [one, other] }
  return other
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
