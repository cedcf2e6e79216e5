import { BookScan, type Match, type Scanned, type ScannedBook, type ScanRequest, seedAt } from './book-scan.ts'
import { type GroupRules, groupLosers } from './groups.ts'
import { Recursion } from './recursion.ts'
import { scannedTextsOf } from './scanned-text.ts'
import { noTimers, replayTimers, type Timers, timedEntries } from './timers.ts'

/** The most passes after the first pass, which searches the conversation. */
const maxPasses = 50
/** Stands between the bodies of two entries, so that no literal key matches across them. */
const bodyBorder = '\n\u0001'

/**
 * Finds the entries whose keys occur in the conversation and then, by recursion, the entries whose keys occur in lore that was
 * found. All books are scanned together: lore of one book can fire entries of another, and an inclusion group spans all books.
 * @param request its conversation must be prepared for the books (`Conversation.prepare`)
 * @returns the matches and the dropped entries of each book
 */
export function scanBooks(request: ScanRequest, books: readonly ScannedBook[]): readonly Scanned[] {
  const recursion = new Recursion(books.map(({ book }) => book))
  const scans = scansOf(request, books, recursion)
  const timers = books.some(({ book }) => book.hasTimers) ? timersOf(request, books, scans) : noTimers
  const taken = new Set<string>()
  for (let pass = 0; pass <= maxPasses && scans.some(({ isPending }) => isPending); pass++) {
    for (const scan of scans) scan.pass(pass, timers)
    const grouped = foundInGroups(scans)
    const rules = groupRules(request, taken, request.conversation.length, timers)
    const losers = grouped.length === 0 ? noLosers : groupLosers(grouped, rules, request.conversation.budget)
    const bodies = settled(scans, losers)
    if (!bodies) break
    const text = bodies.join(bodyBorder)
    if (text !== '') recursion.add(scannedTextsOf(text, request.conversation.budget))
    if (bodies.length === 0 && !recursion.nextLevel(pass)) break
  }
  return scans
}

const noLosers: ReadonlySet<Match> = new Set()

/** Ends a pass of all books. @returns the lore that the next pass searches; null if no entry is left for a next pass */
function settled(scans: readonly BookScan[], losers: ReadonlySet<Match>): readonly string[] | null {
  const bodies = scans.some(({ isPending }) => isPending) ? [] : null
  for (const scan of scans) scan.settle(losers, bodies)
  return bodies
}

/** One scan for each book, without the entries for other characters or replies. */
function scansOf(request: ScanRequest, books: readonly ScannedBook[], recursion: Recursion): readonly BookScan[] {
  const scans = books.map((book) => new BookScan(request, book, recursion))
  for (const scan of scans) if (scan.book.isFiltered) scan.filter()
  return scans
}

/** The matches of the newest pass, in all books, whose entries are in a group. */
function foundInGroups(scans: readonly BookScan[]): readonly Match[] {
  return scans.flatMap(({ found }) => found.filter(({ entry }) => entry.groups.length > 0))
}

/** The entries that stay on or off because they fired at earlier turns. */
function timersOf(request: ScanRequest, books: readonly ScannedBook[], scans: readonly BookScan[]): Timers {
  const { conversation } = request
  const entries = books.flatMap(({ book }) => book.entries)
  const watched = new Set(timedEntries(entries, conversation.budget))
  const timed = []
  for (const scan of scans) for (const each of scan.history(watched)) timed.push(each)
  const rulesAt = (length: number, then: Timers) => groupRules(request, new Set(), length, then)
  const timers = replayTimers(timed, rulesAt, conversation.budget)
  timers.goTo(conversation.length)
  return timers
}

/** The rules of groups at the turn after `length` messages. Each turn has its own draw. */
function groupRules(request: ScanRequest, taken: Set<string>, length: number, timers: Timers): GroupRules {
  return { taken, isSticky: (entry) => timers.isSticky(entry), seed: () => seedAt(request, length) }
}

/** The number of a decorator context, from 0 to 7: the index of its rules in `LoreEntry.decorators`. */
export function decoratorContext(hasPersonality: boolean, hasScenario: boolean, knowsGreeting: boolean): number {
  return (hasPersonality ? 1 : 0) | (hasScenario ? 2 : 0) | (knowsGreeting ? 4 : 0)
}
