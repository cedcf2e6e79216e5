import { hashOf } from '../macros/seeded-random.ts'
import type { LoreEntry } from './entry.ts'
import type { ScanBudget } from './search.ts'

/** The state by which entries of an inclusion group are chosen for the prompt. */
export interface GroupRules {
  /** Groups in which an earlier pass of the scan has chosen an entry. `groupLosers` adds the groups in which it chooses one. */
  readonly taken: Set<string>
  /** Whether an entry stays on because it fired at an earlier turn. An entry that stays on wins without a draw. */
  readonly isSticky: (entry: LoreEntry) => boolean
  /** The seed of the draw: the card, the conversation, and the turn. */
  readonly seed: () => string
}

/** Units of work to add an entry to one of its groups, and to compare one entry with its group. */
const unitsOfMember = 30
const unitsOfMatch = 20

/**
 * Chooses entries in each group. If entries stay on from earlier turns, all of them are chosen. Otherwise, if entries have
 * `groupOverride`, the one with the highest insertion order is chosen. Otherwise, one entry is drawn by weight. No entry is
 * chosen in a group that is in `taken`.
 * @returns the entries that were not chosen
 */
export function groupLosers<T extends { readonly entry: LoreEntry }>(
  found: readonly T[],
  { taken, isSticky, seed }: GroupRules,
  budget: ScanBudget,
): ReadonlySet<T> {
  const losers = new Set<T>()
  for (const [group, all] of byGroup(found, budget)) {
    const members = all.filter((match) => !losers.has(match))
    const winners = taken.has(group) ? [] : winnersOf(group, members, isSticky, seed)
    // If all members have lost in other groups, this group is not taken: a later pass can still choose an entry in it.
    if (winners.length > 0) taken.add(group)
    const staying = new Set(winners)
    for (const member of members) if (!staying.has(member)) losers.add(member)
    budget.spend(unitsOfMatch * (2 * all.length + 2))
  }
  return losers
}

function winnersOf<T extends { readonly entry: LoreEntry }>(
  group: string,
  members: readonly T[],
  isSticky: GroupRules['isSticky'],
  seed: GroupRules['seed'],
): readonly T[] {
  const sticky = members.filter(({ entry }) => isSticky(entry))
  if (sticky.length > 0 || members.length < 2) return sticky.length > 0 ? sticky : members
  const overriding = members.filter(({ entry }) => entry.groupOverride)
  if (overriding.length > 0) {
    return [overriding.reduce((best, match) => (match.entry.insertionOrder > best.entry.insertionOrder ? match : best))]
  }
  const total = members.reduce((sum, { entry }) => sum + entry.groupWeight, 0)
  let rest = (hashOf(`${seed()}/${group}`) / 2 ** 32) * total
  for (const match of members) {
    rest -= match.entry.groupWeight
    if (rest < 0) return [match]
  }
  return members.slice(0, 1)
}

function byGroup<T extends { readonly entry: LoreEntry }>(
  found: readonly T[],
  budget: ScanBudget,
): ReadonlyMap<string, readonly T[]> {
  const groups = new Map<string, T[]>()
  for (const match of found) {
    for (const group of match.entry.groups) {
      const members = groups.get(group)
      if (members) members.push(match)
      else groups.set(group, [match])
      budget.spend(unitsOfMember)
    }
  }
  return groups
}
