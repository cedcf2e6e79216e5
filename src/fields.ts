/** An object of a parsed document. The functions below do not read inherited properties. */
export type Fields = Readonly<Record<string, unknown>>

/** Whether a value is an object, and not an array. */
export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * The value of an own property of a table or a document, by a text that may come from outside. Undefined for an inherited property
 * (`__proto__`, `constructor`).
 */
export function valueIn<T>(fields: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(fields, name) ? fields[name] : undefined
}

/** The value of an own property of any value, also of an array. Undefined if there is no such property. */
export function field(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
  return Reflect.get(value, name)
}

/** The string with this name; empty if the value is not a string. */
export function textIn(fields: Fields, name: string): string {
  const value = valueIn(fields, name)
  return typeof value === 'string' ? value : ''
}

/** The object with this name; an empty object if the value is not an object. */
export function fieldsIn(fields: Fields, name: string): Fields {
  const value = valueIn(fields, name)
  return isFields(value) ? value : {}
}

/** The array with this name; empty if the value is not an array. */
export function listIn(fields: Fields, name: string): readonly unknown[] {
  const value = valueIn(fields, name)
  return Array.isArray(value) ? value : []
}

/** The texts of the array with this name. A single text counts as an array of one, an empty text as an empty array. */
export function textsIn(fields: Fields, name: string): readonly string[] {
  const value = valueIn(fields, name)
  if (typeof value === 'string') return value === '' ? [] : [value]
  return listIn(fields, name).filter((item) => typeof item === 'string')
}

/** The most characters of a text that is converted to a number. */
export const maxNumberLength = 1000

/**
 * The finite number with this name. Real cards also write numbers as texts such as `"4"`, so a text is converted. Else undefined.
 */
export function numberIn(fields: Fields, name: string): number | undefined {
  const value = valueIn(fields, name)
  if (typeof value === 'string' && (value.length > maxNumberLength || value.trim() === '')) return undefined
  const number =
    typeof value === 'string' ? Number(value) : JSON.isRawJSON(value) ? Number(JSON.stringify(value)) : value
  return typeof number === 'number' && Number.isFinite(number) ? number : undefined
}

/** The boolean with this name; undefined if the value is not a boolean. */
export function booleanIn(fields: Fields, name: string): boolean | undefined {
  const value = valueIn(fields, name)
  return typeof value === 'boolean' ? value : undefined
}
