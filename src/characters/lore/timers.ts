import type { Steps } from '../../work.ts'
import type { LoreEntry } from './entry.ts'
import { type GroupRules, groupLosers } from './groups.ts'
import type { ScanWork } from './haystack.ts'

/** A timed entry, and at which of the earlier turns it would have fired. */
export interface Timed {
  readonly entry: LoreEntry
  /** Messages that there were at each turn, ascending. */
  readonly lengths: readonly number[]
  readonly matches: readonly boolean[]
  /** Whether it may fire at a turn because it stays from an earlier one: its conditions held. */
  readonly mayStay: readonly boolean[]
}

/**
 * How long entries stay on and off after they fired, in messages of the conversation, as SillyTavern counts: one that fired
 * when there were 4 stays on for a `sticky` of 3 until there are 7, and then its `cooldown` begins.
 */
export class Timers {
  readonly #sticky = new Map<LoreEntry, number>()
  readonly #cooling = new Map<LoreEntry, number>()

  isSticky(entry: LoreEntry): boolean {
    return this.#sticky.has(entry)
  }

  /** Whether an entry is off; one that is still on is not. */
  isCooling(entry: LoreEntry): boolean {
    return this.#cooling.has(entry) && !this.#sticky.has(entry)
  }

  /** Goes on to so many messages: what has come to its end stops, and a cooldown follows what was on. */
  goTo(length: number): void {
    for (const [entry, end] of this.#sticky) {
      if (length < end) continue
      this.#sticky.delete(entry)
      if (entry.cooldown > 0) this.#cooling.set(entry, length + entry.cooldown)
    }
    for (const [entry, end] of this.#cooling) if (length >= end) this.#cooling.delete(entry)
  }

  /** An entry fires when there are so many messages; one that is on already is on no longer for it. */
  fire(entry: LoreEntry, length: number): void {
    if (entry.sticky > 0 && !this.#sticky.has(entry)) this.#sticky.set(entry, length + entry.sticky)
    if (entry.cooldown > 0 && !this.#cooling.has(entry)) this.#cooling.set(entry, length + entry.cooldown)
  }
}

/** What stays on or off where no book has timed entries. */
export const noTimers = new Timers()

/** Units of work of one entry at one turn. */
const unitsOfTurn = 5

/**
 * Replays the earlier turns of a conversation: the service keeps nothing of it, and all of it is in the request.
 * @param rulesAt how groups are chosen from at a turn
 */
export function* replayed(
  timed: readonly Timed[],
  rulesAt: (length: number, timers: Timers) => GroupRules,
  work: ScanWork,
): Steps<Timers> {
  const timers = new Timers()
  for (const [turn, length] of (timed[0]?.lengths ?? []).entries()) {
    timers.goTo(length)
    const found = timed.filter(({ entry, matches, mayStay }) => {
      if (timers.isSticky(entry)) return mayStay[turn] === true
      return matches[turn] === true && !timers.isCooling(entry)
    })
    work.left -= timed.length * unitsOfTurn
    if (work.isDue) yield work.owed()
    const losers = yield* groupLosers(found, rulesAt(length, timers), work)
    for (const each of found) if (!losers.has(each)) timers.fire(each.entry, length)
  }
  return timers
}

/** The entries of all books that stay on or off after they fired, and those that share a group with one of them. */
export function timedEntries(entries: readonly LoreEntry[]): readonly LoreEntry[] {
  const timed = entries.filter(isTimed)
  if (timed.length === 0) return timed
  const groups = new Set(timed.flatMap((entry) => entry.groups))
  return entries.filter((entry) => isTimed(entry) || entry.groups.some((group) => groups.has(group)))
}

/** Whether an entry stays on or off after it fired. */
export function isTimed({ sticky, cooldown }: LoreEntry): boolean {
  return sticky > 0 || cooldown > 0
}
