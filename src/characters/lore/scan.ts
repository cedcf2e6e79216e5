import type { Steps } from '../../work.ts'
import { BookScan, type Match, type Scanned, type ScannedBook, type ScanRequest, seedAt } from './book-scan.ts'
import { type GroupRules, groupLosers } from './groups.ts'
import { haystacksOf } from './haystack.ts'
import type { Lorebook } from './lorebook.ts'
import { Recursion } from './recursion.ts'
import { noTimers, replayed, type Timers, timedEntries } from './timers.ts'

const maxPasses = 50
const bodyBorder = '\n\u0001'

/**
 * Finds the entries that the conversation calls for, and those that these call for in turn. The books are scanned together:
 * lore of one calls for lore of another, and an inclusion group is the same in all of them.
 * @param request its conversation prepared for the books
 * @returns what was found in each book
 */
export function* scanBooks(request: ScanRequest, books: readonly ScannedBook[]): Steps<readonly Scanned[]> {
  const recursion = new Recursion(books.map(({ book }) => book))
  const scans = yield* scansOf(request, books, recursion)
  const timers = books.some(({ book }) => book.hasTimers) ? yield* timersOf(request, books, scans) : noTimers
  const taken = new Set<string>()
  for (let pass = 0; pass <= maxPasses && scans.some(({ isPending }) => isPending); pass++) {
    for (const scan of scans) yield* scan.pass(pass, timers)
    const grouped = foundInGroups(scans)
    const rules = groupRules(request, taken, request.conversation.length, timers)
    const losers = grouped.length === 0 ? nobody : yield* groupLosers(grouped, rules, request.conversation.work)
    const bodies: string[] = []
    for (const scan of scans) yield* scan.settle(losers, bodies)
    const text = bodies.join(bodyBorder)
    if (text !== '') recursion.add(yield* haystacksOf(text, request.conversation.work))
    if (bodies.length === 0 && !recursion.nextLevel(pass)) break
  }
  return scans
}

const nobody: ReadonlySet<Match> = new Set()

/** The books as they are scanned together, without the entries that are for others. */
function* scansOf(
  request: ScanRequest,
  books: readonly ScannedBook[],
  recursion: Recursion,
): Steps<readonly BookScan[]> {
  const scans = books.map((book) => new BookScan(request, book, recursion))
  for (const scan of scans) if (scan.book.isFiltered) yield* scan.filter()
  return scans
}

/** What the newest pass found in all books that is in a group. */
function foundInGroups(scans: readonly BookScan[]): readonly Match[] {
  return scans.flatMap(({ found }) => found.filter(({ entry }) => entry.groups.length > 0))
}

/** What stays on or off from earlier turns. */
function* timersOf(request: ScanRequest, books: readonly ScannedBook[], scans: readonly BookScan[]): Steps<Timers> {
  const { conversation } = request
  const watched = new Set(timedEntries(books.flatMap(({ book }) => book.timed)))
  const timed = []
  for (const scan of scans) timed.push(...(yield* scan.history(watched)))
  const rulesAt = (length: number, then: Timers) => groupRules(request, new Set(), length, then)
  const timers = yield* replayed(timed, rulesAt, conversation.work)
  timers.goTo(conversation.length)
  return timers
}

/** Lots of groups are drawn anew on each turn. */
function groupRules(request: ScanRequest, taken: Set<string>, length: number, timers: Timers): GroupRules {
  return { taken, isSticky: (entry) => timers.isSticky(entry), seed: () => seedAt(request, length) }
}

/** The number of a context, by which the readings of decorators are kept. */
export function decoratorContext(hasPersonality: boolean, hasScenario: boolean, knowsGreeting: boolean): number {
  return (hasPersonality ? 1 : 0) | (hasScenario ? 2 : 0) | (knowsGreeting ? 4 : 0)
}

/** The most messages that any entry of a book looks at. */
export function maxScanDepth({ entries, scanDepth }: Lorebook): number {
  let deepest = scanDepth
  for (const entry of entries) {
    deepest = Math.max(deepest, entry.scanDepth ?? 0)
    if (entry.decorators[0]?.scanDepth !== undefined) {
      deepest = Math.max(deepest, ...entry.decorators.map((rules) => rules.scanDepth ?? 0))
    }
  }
  return deepest
}
