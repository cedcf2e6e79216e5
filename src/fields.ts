/** An object of a parsed document; only its own properties are ever read. */
export type Fields = Readonly<Record<string, unknown>>

/** Tells whether a value is an object with fields. */
export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** An own property; what is inherited (`__proto__`, `constructor`) is not there. */
export function valueIn(fields: Fields, name: string): unknown {
  return Object.hasOwn(fields, name) ? fields[name] : undefined
}

/** An own property of a value of whatever shape, a list's too; undefined where there is none. */
export function field(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
  return Reflect.get(value, name)
}

/** A text; whatever else stands there counts as empty. */
export function textIn(fields: Fields, name: string): string {
  const value = valueIn(fields, name)
  return typeof value === 'string' ? value : ''
}

/** An object; whatever else stands there counts as one without fields. */
export function fieldsIn(fields: Fields, name: string): Fields {
  const value = valueIn(fields, name)
  return isFields(value) ? value : {}
}

/** An array; whatever else stands there counts as empty. */
export function listIn(fields: Fields, name: string): readonly unknown[] {
  const value = valueIn(fields, name)
  return Array.isArray(value) ? value : []
}

/** The texts of an array, or the only one where a text stands by itself. */
export function textsIn(fields: Fields, name: string): readonly string[] {
  const value = valueIn(fields, name)
  if (typeof value === 'string') return value === '' ? [] : [value]
  return listIn(fields, name).filter((item) => typeof item === 'string')
}

/** A finite number, or a text that writes one: real cards have both. */
export function numberIn(fields: Fields, name: string): number | undefined {
  const value = valueIn(fields, name)
  if (typeof value === 'string' && value.trim() === '') return undefined
  const number = typeof value === 'string' ? Number(value) : value
  return typeof number === 'number' && Number.isFinite(number) ? number : undefined
}

/** A boolean, or undefined where there is none. */
export function booleanIn(fields: Fields, name: string): boolean | undefined {
  const value = valueIn(fields, name)
  return typeof value === 'boolean' ? value : undefined
}
