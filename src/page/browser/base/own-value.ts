/**
 * The value that a table has for a text from the service or from a key press. Undefined for an inherited property, such as
 * `constructor`.
 */
export function ownValue<T>(table: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined
}
