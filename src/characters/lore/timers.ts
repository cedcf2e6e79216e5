import type { LoreEntry } from './entry.ts'
import { type GroupRules, groupLosers } from './groups.ts'
import type { ScanBudget } from './search.ts'

/** The state of an entry at an earlier turn: its conditions were false, they were true, or the entry matched too. */
export const turnState = { off: 0, mayStay: 1, matches: 2 }

/** An entry, and its states at the earlier turns that are replayed. */
export interface TimedHistory {
  readonly entry: LoreEntry
  /** The number of messages at each turn, ascending. All entries have the same list. */
  readonly lengths: readonly number[]
  /** The `turnState` at each turn. An array of numbers would take much more memory for 10,000 entries. */
  readonly states: Uint8Array
}

/**
 * Entries that stay on or off after they fired. Times are numbers of messages, as in SillyTavern: an entry with a `sticky` of 3
 * that fired after 4 messages stays on until the conversation has 7 messages, and then its `cooldown` begins.
 */
export class Timers {
  readonly #sticky = new Map<LoreEntry, number>()
  readonly #cooling = new Map<LoreEntry, number>()

  isSticky(entry: LoreEntry): boolean {
    return this.#sticky.has(entry)
  }

  /** Whether an entry is off. An entry that stays on is not off, even if its cooldown has begun. */
  isCooling(entry: LoreEntry): boolean {
    return this.#cooling.has(entry) && !this.#sticky.has(entry)
  }

  /**
   * Moves on to a conversation of `length` messages: ends the timers that are over, and begins a cooldown after a sticky time.
   */
  goTo(length: number): void {
    for (const [entry, end] of this.#sticky) {
      if (length < end) continue
      this.#sticky.delete(entry)
      if (entry.cooldown > 0) this.#cooling.set(entry, length + entry.cooldown)
    }
    for (const [entry, end] of this.#cooling) if (length >= end) this.#cooling.delete(entry)
  }

  /** Starts the timers of an entry that fires after `length` messages. A timer that runs already is not extended. */
  fire(entry: LoreEntry, length: number): void {
    if (entry.sticky > 0 && !this.#sticky.has(entry)) this.#sticky.set(entry, length + entry.sticky)
    if (entry.cooldown > 0 && !this.#cooling.has(entry)) this.#cooling.set(entry, length + entry.cooldown)
  }
}

/** The timers of a scan without timed entries. These timers are never changed. */
export const noTimers = new Timers()

/** Units of work to replay one entry at one turn, and to look up one group. */
const unitsOfTurn = 5
const unitsOfGroup = 20

/**
 * Replays the earlier turns to find the timers. The service stores no conversations, but the request has all messages.
 * @param rulesAt the rules of groups at a turn
 */
export function replayTimers(
  timed: readonly TimedHistory[],
  rulesAt: (length: number, timers: Timers) => GroupRules,
  budget: ScanBudget,
): Timers {
  const timers = new Timers()
  for (const [turn, length] of (timed[0]?.lengths ?? []).entries()) {
    timers.goTo(length)
    const found = timed.filter(({ entry, states }) => {
      if (timers.isSticky(entry)) return states[turn] !== turnState.off
      return states[turn] === turnState.matches && !timers.isCooling(entry)
    })
    budget.spend(timed.length * unitsOfTurn)
    const losers = groupLosers(found, rulesAt(length, timers), budget)
    for (const each of found) if (!losers.has(each)) timers.fire(each.entry, length)
  }
  return timers
}

/** The entries with timers, and the entries that share a group with one of them. */
export function timedEntries(entries: readonly LoreEntry[], budget: ScanBudget): readonly LoreEntry[] {
  const groups = new Set<string>()
  for (const entry of entries.filter(isTimed)) {
    for (const group of entry.groups) groups.add(group)
    spendOn(entry, budget)
  }
  const found: LoreEntry[] = []
  for (const entry of entries) {
    if (isTimed(entry) || entry.groups.some((group) => groups.has(group))) found.push(entry)
    spendOn(entry, budget)
  }
  return found
}

/** Takes the cost of looking up an entry's groups from the budget. */
function spendOn({ groups }: LoreEntry, budget: ScanBudget): void {
  budget.spend(unitsOfTurn + unitsOfGroup * groups.length)
}

/** Whether an entry has `sticky` or `cooldown`, so that it stays on or off after it fired. */
export function isTimed({ sticky, cooldown }: LoreEntry): boolean {
  return sticky > 0 || cooldown > 0
}
