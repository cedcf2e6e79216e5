/** The most bytes of memory that the values of one thread take. The newest value is kept even if it takes more. */
const maxBytes = 32 * 1024 ** 2

interface Entry {
  readonly value: unknown
  readonly bytes: number
}

/** The values in the order of their last use. */
const entries = new Map<string, Entry>()
/** The key of the value that was used last. */
let newest: string | undefined
let totalBytes = 0

/**
 * Gives the value for a digest from the cache of this thread, or makes it. It is the same object while it is kept. A value whose
 * making fails is not kept.
 * @param kind what the value is, such as `card`: all values of one kind have the type `T`
 * @param digest the digest of everything that the value is made from
 * @param bytesOf the bytes of memory that a value takes
 */
export function cachedInThread<T>(kind: string, digest: string, make: () => T, bytesOf: (value: T) => number): T {
  const key = `${kind} ${digest}`
  const found = entries.get(key)
  if (found) {
    if (key !== newest) {
      entries.delete(key)
      entries.set(key, found)
      newest = key
    }
    // The kind is the type: no other type is kept under this key.
    return found.value as T
  }
  const value = make()
  const bytes = bytesOf(value)
  entries.set(key, { value, bytes })
  newest = key
  totalBytes += bytes
  for (const [oldest, { bytes: freed }] of entries) {
    if (totalBytes <= maxBytes || oldest === key) break
    entries.delete(oldest)
    totalBytes -= freed
  }
  return value
}
