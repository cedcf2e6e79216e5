import { BookScan, type Recursion, type Scanned, type ScannedBook, type ScanRequest, seedAt } from './book-scan.ts'
import { type GroupRules, groupLosers } from './groups.ts'
import { type ScanBudget, scannedTextsOf } from './search.ts'
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
  const { budget, length } = request.conversation
  const recursion: Recursion = { texts: [], newest: [], fields: new Map(), firstPasses: new Map([[0, 0]]) }
  const levels = levelsOf(books)
  // As in SillyTavern, the first pass of the recursion begins the first level.
  for (const first of levels.splice(0, 1)) recursion.firstPasses.set(first, 1)
  const scans = books.map((book) => new BookScan(request, book, recursion))
  const timers = books.some(({ book }) => book.hasTimers) ? timersOf(request, books, scans) : noTimers
  const rules = groupRules(request, new Set(), length, timers)
  for (let pass = 0; pass <= maxPasses && scans.some(({ isPending }) => isPending); pass++) {
    for (const scan of scans) scan.pass(pass, timers)
    const bodies = settled(scans, rules, budget)
    if (!bodies) break
    const text = bodies.join(bodyBorder)
    if (text !== '') {
      recursion.newest = scannedTextsOf(text, budget)
      recursion.texts.push(...recursion.newest)
    }
    if (bodies.length > 0) continue
    // Without lore to search, the recursion would end, so the next level begins.
    const [next] = levels.splice(0, 1)
    if (next === undefined) break
    recursion.firstPasses.set(next, pass + 1)
  }
  return scans
}

/** Ends a pass of all books. @returns the lore that the next pass searches; null if no entry is left for a next pass */
function settled(scans: readonly BookScan[], rules: GroupRules, budget: ScanBudget): readonly string[] | null {
  const grouped = scans.flatMap(({ found }) => found.filter(({ entry }) => entry.groups.length > 0))
  const losers = groupLosers(grouped, rules, budget)
  const bodies = scans.some(({ isPending }) => isPending) ? [] : null
  for (const scan of scans) scan.settle(losers, bodies)
  return bodies
}

/** The recursion levels that entries wait for, ascending. */
function levelsOf(books: readonly ScannedBook[]): number[] {
  const levels = books.flatMap(({ book }) => (book.recursive ? book.levels : []))
  return [...new Set(levels)].sort((a, b) => a - b)
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
