import { bufferOf } from '../../bytes.ts'
import { maxUnits, withFuel } from '../../work/fuel.ts'
import { cachedInThread } from '../../work/thread-cache.ts'
import { readJsonDocument } from '../documents/json-document.ts'
import type { LoreEntry } from './entry.ts'
import type { LoreKey } from './keys.ts'
import { type Lorebook, readLorebook } from './lorebook.ts'

/** A world book of the operator as plain data, for any thread. */
export interface KeptBook {
  /** SHA-256 of the document, 64 hex digits. */
  readonly digest: string
  /** The book's JSON document, in shared memory. */
  readonly document: Uint8Array
  /** Whether it is parsed and scanned only in workers: over 128 KiB of JSON, or slow to read, or with patterns. */
  readonly isHeavy: boolean
}

/** The parsed book. Each thread keeps the books that it has parsed last, as `cardOf` keeps cards. */
export function bookOf({ digest, document }: KeptBook): Lorebook {
  const read = () => withFuel(maxUnits, () => readLorebook(readJsonDocument(bufferOf(document))))
  return cachedInThread('book', digest, read, (book) => 4 * document.length + memoryOfBook(book))
}

/** Estimated bytes of memory of a lorebook entry, of a key, and of an item of another list, besides its characters. */
const bytesOfEntry = 1000
const bytesOfKey = 500
const bytesOfItem = 60

/** Estimates the bytes of memory of a parsed lorebook, besides those of its texts. */
export function memoryOfBook({ entries }: Lorebook): number {
  let bytes = 0
  for (const entry of entries) {
    const { names = [], tags = [], replies = [] } = entry.audience ?? {}
    bytes += bytesOfEntry + bytesOfItem * (names.length + tags.length + replies.length)
    for (const keys of listsOf(entry)) {
      bytes += bytesOfKey * keys.length
      for (const { pattern } of keys) bytes += pattern?.bytes ?? 0
    }
  }
  return bytes
}

/** The lists of keys of an entry. Several contexts may share a list of a decorator. */
function listsOf({ keys, secondaryKeys, decorators }: LoreEntry): Iterable<readonly LoreKey[]> {
  const lists = [keys, secondaryKeys]
  for (const { additional, excluded } of decorators) lists.push(...additional, ...excluded)
  return lists.length === 2 ? lists : new Set(lists)
}
