import { type Fields, isFields, listIn, textIn, valueIn } from '../../fields.ts'
import { spend } from '../../work/fuel.ts'
import { choosesPlace, isDisabled, knownReplies, type LoreEntry } from './entry.ts'
import type { Lorebook } from './lorebook.ts'

/** Units of work to check one entry. */
const unitsOfEntry = 60
/** The most characters of an entry's name in a report. */
const maxNameLength = 60

/**
 * Reports the enabled entries that can never be in a prompt for a reason that `reasonOf` knows. The report of an entry is one
 * text: its index in the file (from 0), its name, and the reason.
 * @param fields the JSON of the book, from which `book` was read
 */
export function neverFiring(fields: Fields, book: Lorebook, report: (entry: string) => void): void {
  const read = new Map(book.entries.map((entry) => [entry.index, entry]))
  for (const [index, written] of writtenEntries(fields).entries()) {
    spend(unitsOfEntry)
    if (isFields(written) && isDisabled(written)) continue
    const reason = reasonOf(written, read.get(index), book)
    if (reason !== undefined) report(`entries[${index}]${nameOf(written)}: ${reason}`)
  }
}

/** The entries of a book as they are in the file. The file has a list or an object of entries. */
export function writtenEntries(book: Fields): readonly unknown[] {
  const entries = valueIn(book, 'entries')
  return isFields(entries) ? Object.values(entries) : listIn(book, 'entries')
}

function nameOf(entry: unknown): string {
  const name = isFields(entry) ? textIn(entry, 'name') || textIn(entry, 'comment') : ''
  return name === '' ? '' : ` ${JSON.stringify(name.slice(0, maxNameLength))}`
}

/** The reason why an entry can never be in a prompt; undefined if no such reason is found. */
function reasonOf(written: unknown, entry: LoreEntry | undefined, book: Lorebook): string | undefined {
  if (!isFields(written)) return 'not an object'
  if (entry === undefined) return 'no content'
  const all = entry.decorators
  if (isForUnknownReplies(entry)) return 'only for kinds of replies that the service does not know (triggers)'
  if (entry.place.section === 'nowhere' && !all.some(choosesPlace)) {
    return 'placed at an outlet (position 7), but the service has no outlets'
  }
  if (all.some(({ activate }) => activate)) return undefined
  if (all.every(({ dontActivate }) => dontActivate)) return '@@dont_activate without @@activate'
  if (all.every(({ probability }) => (probability ?? entry.probability) <= 0)) return 'a probability of 0'
  if (entry.recursionLevel > 0 && !book.recursive) return 'delay_until_recursion in a book without recursion'
  if (entry.constant) return undefined
  return reasonOfKeys(entry) ?? reasonOfDepth(entry, book)
}

function isForUnknownReplies({ audience }: LoreEntry): boolean {
  const replies = audience?.replies ?? []
  return replies.length > 0 && !replies.some((reply) => knownReplies.has(reply))
}

function reasonOfKeys({ keys }: LoreEntry): string | undefined {
  if (keys.length === 0) return 'no keys, and not constant'
  return keys.every(({ pattern }) => pattern === null) ? 'all keys are refused regular expressions' : undefined
}

function reasonOfDepth(entry: LoreEntry, book: Lorebook): string | undefined {
  const isUnseen = entry.decorators.every(({ scanDepth }) => (scanDepth ?? entry.scanDepth ?? book.scanDepth) <= 0)
  const isTriggered = book.recursive && !entry.excludeRecursion
  return isUnseen && !isTriggered && entry.alsoScans.length === 0 ? 'a scan depth of 0, without recursion' : undefined
}
