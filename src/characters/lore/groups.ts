import type { Steps } from '../../work.ts'
import { hashOf } from '../macros/seeded-random.ts'
import type { LoreEntry } from './entry.ts'
import type { ScanWork } from './haystack.ts'

/** What the members of a group are chosen by. */
export interface GroupRules {
  /** Groups that have an entry in the prompt already. */
  readonly taken: Set<string>
  /** Whether an entry stays from an earlier turn; such entries win, and no lot is drawn. */
  readonly isSticky: (entry: LoreEntry) => boolean
  /** What lots are drawn from: the card, the conversation, and the turn. */
  readonly seed: () => string
}

/** Units of work of an entry that is compared with its group. */
const unitsOfMatch = 20

/**
 * Chooses of entries that share a group: those that stay from earlier, else the highest that overrides, else one drawn by
 * weight, and none where the group is taken.
 * @returns those that give way
 */
export function* groupLosers<T extends { readonly entry: LoreEntry }>(
  found: readonly T[],
  { taken, isSticky, seed }: GroupRules,
  work: ScanWork,
): Steps<ReadonlySet<T>> {
  const losers = new Set<T>()
  for (const [group, all] of byGroup(found)) {
    const members = all.filter((match) => !losers.has(match))
    const winners = taken.has(group) ? [] : winnersOf(group, members, isSticky, seed)
    taken.add(group)
    const staying = new Set(winners)
    for (const member of members) if (!staying.has(member)) losers.add(member)
    work.left -= unitsOfMatch * (2 * all.length + 2)
    if (work.isDue) yield work.owed()
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

/** What was found by the groups that it is in. */
function byGroup<T extends { readonly entry: LoreEntry }>(found: readonly T[]): ReadonlyMap<string, readonly T[]> {
  const groups = new Map<string, T[]>()
  for (const match of found) {
    for (const group of match.entry.groups) {
      const members = groups.get(group)
      if (members) members.push(match)
      else groups.set(group, [match])
    }
  }
  return groups
}
