import { hashOf } from '../macros/seeded-random.ts'
import type { Conversation } from './conversation.ts'
import type { DecoratedRules, LoreEntry, ScannedField } from './entry.ts'
import { firstKeyIn, Haystack, type LoreKey } from './haystack.ts'
import { othersAllow } from './key-match.ts'
import type { Lorebook } from './lorebook.ts'

/** What a book is scanned with. */
export interface ScanRequest {
  readonly book: Lorebook
  readonly conversation: Conversation
  /** `decoratorContext`'s number. */
  readonly context: number
  /** The active greeting, where it can be told. */
  readonly greeting: number | undefined
  /** The most messages that any entry looks at. */
  readonly deepest: number
  readonly expandKey: (key: LoreKey) => LoreKey
  /** A body as it is looked through by the recursion: expanded, hidden keys shown. */
  readonly recursionText: (entry: LoreEntry) => string
  readonly fieldText: (field: ScannedField) => string
  readonly random: () => number
  readonly seed: string
}

/** An entry that matched, by which keys; or why it does not stay although it did. */
export interface Match {
  readonly entry: LoreEntry
  readonly rules: DecoratedRules
  readonly keys: readonly string[]
}

export type DropReason = 'probability' | 'group' | 'limit' | 'budget' | 'context' | 'position'

export interface Scanned {
  readonly matches: readonly Match[]
  readonly dropped: readonly { readonly match: Match; readonly reason: DropReason }[]
}

const mostPasses = 50
const bodyBorder = '\n\u0001'

/** Finds the entries of a book that the conversation calls for, and those that these call for in turn. */
export function scanBook(request: ScanRequest): Scanned {
  const scan = new Scan(request)
  scan.run()
  return { matches: scan.matches, dropped: scan.dropped }
}

/** The number of a context, by which the readings of decorators are kept. */
export function decoratorContext(hasPersonality: boolean, hasScenario: boolean, knowsGreeting: boolean): number {
  return (hasPersonality ? 1 : 0) | (hasScenario ? 2 : 0) | (knowsGreeting ? 4 : 0)
}

type Verdict = 'never' | 'not yet' | Match

class Scan {
  readonly matches: Match[] = []
  readonly dropped: { match: Match; reason: DropReason }[] = []
  readonly #request: ScanRequest
  /** Texts of the recursion, one for each pass that brought any. */
  readonly #recursion: Haystack[] = []
  readonly #primary = new Map<LoreEntry, string>()
  readonly #groups = new Set<string>()
  readonly #fields = new Map<ScannedField, Haystack>()

  constructor(request: ScanRequest) {
    this.#request = request
  }

  run(): void {
    let pending = this.#request.book.entries
    for (let pass = 0; pass <= mostPasses && pending.length > 0; pass++) {
      const found: Match[] = []
      const later: LoreEntry[] = []
      for (const entry of pending) {
        const verdict = this.#judge(entry, pass)
        if (verdict === 'not yet') later.push(entry)
        else if (verdict !== 'never') found.push(verdict)
      }
      const staying = this.#withoutGroupMates(found)
      for (const match of staying) this.matches.push(match)
      pending = later
      if (!this.#recurs(staying, later, pass)) return
    }
  }

  /** Adds what the entries of a pass say to what is looked through next; tells whether another pass may find more. */
  #recurs(staying: readonly Match[], pending: readonly LoreEntry[], pass: number): boolean {
    const { book, conversation, recursionText } = this.#request
    if (!book.recursive) return false
    const text = staying
      .filter(({ entry }) => !entry.preventRecursion)
      .map(({ entry }) => recursionText(entry))
      .join(bodyBorder)
    if (text !== '') this.#recursion.push(new Haystack(text, conversation.work))
    return text !== '' || (this.#recursion.length > 0 && pending.some(({ recursionLevel }) => recursionLevel > pass))
  }

  #judge(entry: LoreEntry, pass: number): Verdict {
    const rules = entry.decorators[this.#request.context] ?? noRules
    const verdict = this.#judgeByRules(entry, rules, pass)
    if (verdict !== undefined) return verdict
    if (pass < entry.recursionLevel) return 'not yet'
    const keys = this.#keysOf(entry, rules, pass)
    if (keys) return this.#drawn({ entry, rules, keys })
    if (this.#request.conversation.work.left > 0) return 'not yet'
    // Never silently: what could not be looked for any more is told of.
    this.dropped.push({ match: { entry, rules, keys: [] }, reason: 'limit' })
    return 'never'
  }

  /** What is decided before any key is looked for; undefined where the keys decide. */
  #judgeByRules(entry: LoreEntry, rules: DecoratedRules, pass: number): Verdict | undefined {
    const match = { entry, rules, keys: [] }
    if (rules.activate) return match
    if (rules.dontActivate) return 'never'
    if (pass > 0) return entry.excludeRecursion ? 'never' : undefined
    if (rules.dontAfterMatch && this.#matchedBefore(entry, rules)) return 'never'
    if (rules.keepAfterMatch && this.#matchedBefore(entry, rules)) return match
    return this.#conditionsHold(entry, rules) ? undefined : 'never'
  }

  /** Draws for an entry that matched. */
  #drawn(match: Match): Verdict {
    const probability = match.rules.probability ?? match.entry.probability
    if (probability >= 100 || this.#request.random() * 100 < probability) return match
    this.dropped.push({ match, reason: 'probability' })
    return 'never'
  }

  #conditionsHold({ delay }: LoreEntry, { onlyAfter = 0, onlyEvery = 1, greeting }: DecoratedRules): boolean {
    const { messages, saidByCharacter } = this.#request.conversation
    return (
      saidByCharacter >= onlyAfter &&
      saidByCharacter % onlyEvery === 0 &&
      messages.length >= delay &&
      (greeting === undefined || this.#request.greeting === undefined || greeting === this.#request.greeting)
    )
  }

  /** The keys by which an entry matches now; undefined when it does not. */
  #keysOf(entry: LoreEntry, rules: DecoratedRules, pass: number): readonly string[] | undefined {
    const { expandKey } = this.#request
    const matched: string[] = []
    if (!entry.constant) {
      if (entry.keys.length === 0) return undefined
      const known = this.#primary.get(entry)
      const isFirstLook = pass === entry.recursionLevel
      const newest = this.#recursion.slice(-1)
      // What was looked through in an earlier pass has not got the key.
      const texts = isFirstLook ? this.#textsOf(entry, rules) : newest
      const key = known ?? firstKeyIn(entry.keys, texts, entry, expandKey)?.written
      if (key === undefined) return undefined
      if (known === undefined) this.#primary.set(entry, key)
      matched.push(key)
    }
    const isFree = entry.secondaryKeys.length === 0 && rules.additional.length === 0 && rules.excluded.length === 0
    if (isFree || othersAllow(entry, rules, this.#textsOf(entry, rules), expandKey, matched)) return matched
    return undefined
  }

  /** Where an entry's keys are looked for: its window, texts of the card, and what the recursion brought. */
  #textsOf(entry: LoreEntry, rules: DecoratedRules): readonly Haystack[] {
    if (entry.recursionLevel > 0) return this.#recursion
    const { conversation, deepest } = this.#request
    const window = conversation.window(this.#depthOf(entry, rules), deepest)
    if (entry.alsoScans.length === 0 && this.#recursion.length === 0) return [window]
    return [window, ...entry.alsoScans.map((field) => this.#field(field)), ...this.#recursion]
  }

  #depthOf(entry: LoreEntry, rules: DecoratedRules): number {
    return Math.max(0, rules.scanDepth ?? entry.scanDepth ?? this.#request.book.scanDepth)
  }

  #field(field: ScannedField): Haystack {
    const known = this.#fields.get(field)
    if (known) return known
    const made = new Haystack(this.#request.fieldText(field), this.#request.conversation.work)
    this.#fields.set(field, made)
    return made
  }

  /** Replays the conversation: the service keeps nothing of it, and all of it is in the request. */
  #matchedBefore(entry: LoreEntry, rules: DecoratedRules): boolean {
    const { conversation, expandKey } = this.#request
    for (const window of conversation.earlier(this.#depthOf(entry, rules))) {
      const texts = [window]
      if (!firstKeyIn(entry.keys, texts, entry, expandKey)) continue
      if (othersAllow(entry, rules, texts, expandKey, [])) return true
    }
    return false
  }

  /** Of entries that share a group one stays: the highest that overrides, else one drawn by weight. */
  #withoutGroupMates(found: readonly Match[]): readonly Match[] {
    if (found.every(({ entry }) => entry.groups.length === 0)) return found
    const losers = new Set<Match>()
    for (const group of new Set(found.flatMap(({ entry }) => entry.groups))) {
      const members = found.filter((match) => match.entry.groups.includes(group) && !losers.has(match))
      const winner = this.#groups.has(group) ? undefined : this.#winner(group, members)
      this.#groups.add(group)
      for (const member of members) if (member !== winner) losers.add(member)
    }
    for (const match of losers) this.dropped.push({ match, reason: 'group' })
    return found.filter((match) => !losers.has(match))
  }

  #winner(group: string, members: readonly Match[]): Match | undefined {
    const overriding = members.filter(({ entry }) => entry.groupOverride)
    if (overriding.length > 0) {
      return overriding.reduce((best, match) => (match.entry.insertionOrder > best.entry.insertionOrder ? match : best))
    }
    const total = members.reduce((sum, { entry }) => sum + entry.groupWeight, 0)
    let rest = (hashOf(`${this.#request.seed}/${group}`) / 2 ** 32) * total
    for (const match of members) {
      rest -= match.entry.groupWeight
      if (rest < 0) return match
    }
    return members[0]
  }
}

const noRules: DecoratedRules = { additional: [], excluded: [] }

/** The most messages that any entry of a book looks at. */
export function deepestScan({ entries, scanDepth }: Lorebook): number {
  let deepest = scanDepth
  for (const entry of entries) {
    deepest = Math.max(deepest, entry.scanDepth ?? 0)
    if (entry.decorators[0]?.scanDepth !== undefined) {
      deepest = Math.max(deepest, ...entry.decorators.map((rules) => rules.scanDepth ?? 0))
    }
  }
  return deepest
}
