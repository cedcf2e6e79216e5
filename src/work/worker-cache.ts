import { spend, spentUnits } from './fuel.ts'

/**
 * The most bytes that the values of a thread were made from. This is the default of `CARD_BODY_LIMIT`; the values of a card take up
 * to four times its JSON.
 */
const maxBytes = 16 * 1024 ** 2

interface Entry {
  readonly value: unknown
  readonly bytes: number
  /** The units that were spent to make the value. */
  readonly units: number
}

/** The values in the order of their last use. */
const entries = new Map<string, Entry>()
let totalBytes = 0

/**
 * Gives the value for a digest from the cache of this thread, or makes it. A value from the cache costs the same units, so whether a
 * request is too complex does not depend on earlier requests. A value whose making fails is not kept.
 * @param kind what the value is, such as `card`: all values of one kind have the type `T`
 * @param digest the digest of everything that the value is made from
 * @param bytes the size of the bytes that the value is made from
 */
export function cachedInWorker<T>(kind: string, digest: string, bytes: number, make: () => T): T {
  const key = `${kind} ${digest}`
  const found = entries.get(key)
  if (found) {
    spend(found.units)
    entries.delete(key)
    entries.set(key, found)
    // The kind is the type: no other type is kept under this key.
    return found.value as T
  }
  const before = spentUnits()
  const value = make()
  if (bytes > maxBytes) return value
  entries.set(key, { value, bytes, units: spentUnits() - before })
  totalBytes += bytes
  for (const [oldest, { bytes: freed }] of entries) {
    if (totalBytes <= maxBytes) break
    entries.delete(oldest)
    totalBytes -= freed
  }
  return value
}
