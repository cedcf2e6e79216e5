/** An object of a parsed document. The functions below read only its own properties. */
export type Fields = Readonly<Record<string, unknown>>

/** Whether a value is an object, and not an array. */
export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** An own property; undefined for an inherited one (`__proto__`, `constructor`). */
export function valueIn(fields: Fields, name: string): unknown {
  return Object.hasOwn(fields, name) ? fields[name] : undefined
}

/** An own property of a value of any type, also of an array; undefined where there is none. */
export function field(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
  return Reflect.get(value, name)
}

/** A text; empty where the value is no string. */
export function textIn(fields: Fields, name: string): string {
  const value = valueIn(fields, name)
  return typeof value === 'string' ? value : ''
}

/** An object; one without fields where the value is no object. */
export function fieldsIn(fields: Fields, name: string): Fields {
  const value = valueIn(fields, name)
  return isFields(value) ? value : {}
}

/** An array; empty where the value is no array. */
export function listIn(fields: Fields, name: string): readonly unknown[] {
  const value = valueIn(fields, name)
  return Array.isArray(value) ? value : []
}

/** The texts of an array; a single text counts as an array of one. */
export function textsIn(fields: Fields, name: string): readonly string[] {
  const value = valueIn(fields, name)
  if (typeof value === 'string') return value === '' ? [] : [value]
  return listIn(fields, name).filter((item) => typeof item === 'string')
}

/** A finite number, or a text that is one: real cards have both. */
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
