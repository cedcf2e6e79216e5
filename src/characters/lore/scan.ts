import type { Steps } from '../../work.ts'
import { hashOf } from '../macros/seeded-random.ts'
import { entriesFor, type Speaker } from './audience.ts'
import type { Conversation, Earlier } from './conversation.ts'
import type { DecoratedRules, LoreEntry, ScannedField } from './entry.ts'
import { type GroupRules, groupLosers } from './groups.ts'
import { firstKeyIn, type Haystack, haystacksOf, type KeySearch, type LoreKey } from './haystack.ts'
import { othersAllow } from './key-match.ts'
import type { Lorebook } from './lorebook.ts'
import { isTimed, replayed, type Timed, Timers } from './timers.ts'

/** What a book is scanned with. */
export interface ScanRequest {
  readonly book: Lorebook
  readonly conversation: Conversation
  /** Asked only for a book that is not for everybody. */
  readonly speaker: () => Speaker
  /** `decoratorContext`'s number. */
  readonly context: number
  /** The active greeting, where it can be told. */
  readonly greeting: number | undefined
  readonly expandKey: (key: LoreKey) => Steps<LoreKey>
  /** A body as it is looked through by the recursion: expanded, hidden keys shown. */
  readonly recursionText: (entry: LoreEntry) => Steps<string>
  readonly fieldText: (field: ScannedField) => Steps<string>
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
/** Units of work of one entry, beside its keys. */
const unitsOfEntry = 5

/**
 * Finds the entries of a book that the conversation calls for, and those that these call for in turn.
 * @param request its conversation prepared for the book
 */
export function* scanBook(request: ScanRequest): Steps<Scanned> {
  const scan = new Scan(request)
  yield* scan.run()
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
  readonly #now: Pick<Earlier, 'length' | 'saidByCharacter'>
  readonly #search: KeySearch
  /** Texts of the recursion, and those of its newest pass. */
  readonly #recursion: Haystack[] = []
  #newest: readonly Haystack[] = []
  readonly #primary = new Map<LoreEntry, string>()
  readonly #groups = new Set<string>()
  readonly #fields = new Map<ScannedField, readonly Haystack[]>()
  /** What stays on or off from earlier turns. */
  #timers = new Timers()
  /** The levels of the recursion that entries wait for, ascending, with the pass in which each is reached. */
  readonly #levels = new Map<number, number>()

  constructor(request: ScanRequest) {
    this.#request = request
    const { messages, saidByCharacter } = request.conversation
    this.#now = { length: messages.length, saidByCharacter }
    this.#search = { work: request.conversation.work, expand: request.expandKey }
  }

  *run(): Steps<void> {
    const { book, speaker } = this.#request
    let pending = yield* entriesFor(book, speaker)
    if (book.timed.length > 0) this.#timers = yield* this.#replay(new Set(pending))
    this.#beginLevels()
    for (let pass = 0; pass <= mostPasses && pending.length > 0; pass++) {
      const { found, later } = yield* this.#pass(pending, pass)
      const staying = yield* this.#withoutGroupMates(found)
      for (const match of staying) this.matches.push(match)
      pending = later
      if (!(yield* this.#recurs(staying, pass))) return
    }
  }

  /** The first level is reached with the first pass of the recursion, as in SillyTavern; the others when it would end. */
  #beginLevels(): void {
    const { levels } = this.#request.book
    for (const level of levels) this.#levels.set(level, Number.POSITIVE_INFINITY)
    if (levels[0] !== undefined) this.#levels.set(levels[0], 1)
  }

  /** Goes on to the next level that entries wait for; tells whether there is one. */
  #nextLevel(pass: number): boolean {
    for (const [level, reached] of this.#levels) {
      if (reached <= pass + 1) continue
      this.#levels.set(level, pass + 1)
      return true
    }
    return false
  }

  /** The first pass in which an entry may match by its keys. */
  #firstPassOf({ recursionLevel }: LoreEntry): number {
    return recursionLevel === 0 ? 0 : (this.#levels.get(recursionLevel) ?? 0)
  }

  /** Judges the entries that may still match: what is found now, and what may be later. */
  *#pass(pending: readonly LoreEntry[], pass: number) {
    const { work } = this.#search
    const found: Match[] = []
    const later: LoreEntry[] = []
    // By their places, as in `firstKeyIn`.
    for (let e = 0, entry = pending[0]; entry; entry = pending[++e]) {
      const verdict = this.#atAGlance(entry, pass) ?? (yield* this.#judge(entry, pass))
      if (verdict === 'not yet') later.push(entry)
      else if (verdict !== 'never') found.push(verdict)
      work.left -= unitsOfEntry
      if (work.isDue) yield work.owed()
    }
    return { found, later }
  }

  /** Adds what the entries of a pass say to what is looked through next; tells whether another pass may find more. */
  *#recurs(staying: readonly Match[], pass: number): Steps<boolean> {
    const { book, conversation, recursionText } = this.#request
    if (!book.recursive) return false
    const bodies: string[] = []
    for (const { entry } of staying) {
      if (!entry.preventRecursion) bodies.push(yield* recursionText(entry))
    }
    const text = bodies.join(bodyBorder)
    this.#newest = text === '' ? this.#newest : yield* haystacksOf(text, conversation.work)
    if (text !== '') this.#recursion.push(...this.#newest)
    return bodies.length > 0 || this.#nextLevel(pass)
  }

  /** What is found of most entries, and soon: none of their keys occurs. Undefined where that takes a search. */
  #atAGlance(entry: LoreEntry, pass: number): Verdict | undefined {
    if (entry.constant || entry.recursionLevel !== 0 || entry.alsoScans.length > 0) return undefined
    if (this.#search.work.left <= 0) return undefined
    const rules = this.#rulesOf(entry)
    const verdict = this.#byRules(entry, rules, pass)
    if (verdict !== undefined) return verdict
    if (pass === 0) {
      if (isReplayed(rules)) return undefined
      return lacksAll(this.#windowOf(entry, rules), entry.keys) ? 'not yet' : undefined
    }
    if (this.#primary.size > 0 && this.#primary.has(entry)) return undefined
    for (const text of this.#newest) if (!lacksAll(text, entry.keys)) return undefined
    return 'not yet'
  }

  *#judge(entry: LoreEntry, pass: number): Steps<Verdict> {
    const rules = this.#rulesOf(entry)
    const decided = this.#byRules(entry, rules, pass)
    const verdict = decided ?? (pass === 0 && isReplayed(rules) ? yield* this.#byReplay(entry, rules) : undefined)
    if (verdict !== undefined) return verdict
    if (pass < this.#firstPassOf(entry)) return 'not yet'
    for (const field of entry.alsoScans) yield* this.#readField(field)
    const keys = yield* this.#keysOf(entry, rules, pass)
    if (keys) return this.#drawn({ entry, rules, keys })
    if (this.#search.work.left > 0) return 'not yet'
    // Never silently: what could not be looked for any more is told of.
    this.dropped.push({ match: { entry, rules, keys: [] }, reason: 'limit' })
    return 'never'
  }

  /** What earlier points of the conversation decide; undefined where the keys decide. */
  *#byReplay(entry: LoreEntry, rules: DecoratedRules): Steps<Verdict | undefined> {
    if (yield* this.#matchedBefore(entry, rules)) {
      return rules.dontAfterMatch ? 'never' : { entry, rules, keys: [] }
    }
    return this.#conditionsHold(entry, rules) ? undefined : 'never'
  }

  #rulesOf({ decorators }: LoreEntry): DecoratedRules {
    return decorators[this.#request.context] ?? noRules
  }

  /** What is decided before any key is looked for; undefined where the keys decide. */
  #byRules(entry: LoreEntry, rules: DecoratedRules, pass: number): Verdict | undefined {
    if (rules.activate) return { entry, rules, keys: [] }
    if (rules.dontActivate) return 'never'
    if (pass > 0) return entry.excludeRecursion ? 'never' : undefined
    if (this.#timers.isCooling(entry)) return 'never'
    if (this.#timers.isSticky(entry)) return this.#conditionsHold(entry, rules) ? { entry, rules, keys: [] } : 'never'
    // One that goes on after a match needs no more than that.
    if (rules.keepAfterMatch) return undefined
    return this.#conditionsHold(entry, rules) ? undefined : 'never'
  }

  /** Draws for an entry that matched. */
  #drawn(match: Match): Verdict {
    const probability = match.rules.probability ?? match.entry.probability
    const { conversation, random } = this.#request
    const draw = isTimed(match.entry) ? this.#drawAt(match.entry, conversation.length) : random()
    if (probability >= 100 || draw * 100 < probability) return match
    this.dropped.push({ match, reason: 'probability' })
    return 'never'
  }

  /** The draw of an entry at a turn, the same whenever the turn is looked at again; from 0 to 1. */
  #drawAt(entry: LoreEntry, length: number): number {
    return hashOf(`${this.#seedAt(length)}/${entry.index}`) / 2 ** 32
  }

  #seedAt(length: number): string {
    return `${this.#request.seed}/${this.#request.conversation.turnAt(length)}`
  }

  #conditionsHold(
    { delay }: LoreEntry,
    { onlyAfter = 0, onlyEvery = 1, greeting }: DecoratedRules,
    { length, saidByCharacter }: Pick<Earlier, 'length' | 'saidByCharacter'> = this.#now,
  ): boolean {
    return (
      saidByCharacter >= onlyAfter &&
      saidByCharacter % onlyEvery === 0 &&
      length >= delay &&
      (greeting === undefined || this.#request.greeting === undefined || greeting === this.#request.greeting)
    )
  }

  /** The keys by which an entry matches now; undefined when it does not. */
  *#keysOf(entry: LoreEntry, rules: DecoratedRules, pass: number): Steps<readonly string[] | undefined> {
    const key = entry.constant ? undefined : yield* this.#primaryOf(entry, rules, pass)
    if (!entry.constant && key === undefined) return undefined
    const matched = key === undefined ? [] : [key]
    const isFree = entry.secondaryKeys.length === 0 && rules.additional.length === 0 && rules.excluded.length === 0
    if (isFree) return matched
    const texts = this.#textsOf(entry, rules)
    return (yield* othersAllow(entry, rules, texts, this.#search, matched)) ? matched : undefined
  }

  /** Which of its first keys an entry has matched by; undefined when by none. */
  *#primaryOf(entry: LoreEntry, rules: DecoratedRules, pass: number): Steps<string | undefined> {
    const known = this.#primary.get(entry)
    if (known !== undefined || entry.keys.length === 0) return known
    // What was looked through in an earlier pass has not got the key.
    const texts = pass === this.#firstPassOf(entry) ? this.#textsOf(entry, rules) : this.#newest
    const key = yield* firstKeyIn(entry.keys, texts, entry, this.#search)
    if (key) this.#primary.set(entry, key.written)
    return key?.written
  }

  /** Where an entry's keys are looked for: its window, texts of the card that were read, and what the recursion brought. */
  #textsOf(entry: LoreEntry, rules: DecoratedRules): readonly Haystack[] {
    this.#search.work.left -= this.#recursion.length
    const texts = [this.#windowOf(entry, rules)]
    for (const field of entry.alsoScans) texts.push(...(this.#fields.get(field) ?? []))
    return this.#recursion.length === 0 ? texts : [...texts, ...this.#recursion]
  }

  #windowOf(entry: LoreEntry, rules: DecoratedRules): Haystack {
    return this.#request.conversation.window(this.#depthOf(entry, rules))
  }

  #depthOf(entry: LoreEntry, rules: DecoratedRules): number {
    return Math.max(0, Math.ceil(rules.scanDepth ?? entry.scanDepth ?? this.#request.book.scanDepth))
  }

  *#readField(field: ScannedField): Steps<void> {
    if (this.#fields.has(field)) return
    this.#fields.set(field, yield* haystacksOf(yield* this.#request.fieldText(field), this.#search.work))
  }

  /** Replays the conversation: the service keeps nothing of it, and all of it is in the request. */
  *#matchedBefore(entry: LoreEntry, rules: DecoratedRules): Steps<boolean> {
    const { work } = this.#search
    for (const { window } of yield* this.#request.conversation.earlier(this.#depthOf(entry, rules))) {
      if (work.left <= 0) return false
      if (work.isDue) yield work.owed()
      if (lacksAll(window, entry.keys)) continue
      const texts = [window]
      if (!(yield* firstKeyIn(entry.keys, texts, entry, this.#search))) continue
      if (yield* othersAllow(entry, rules, texts, this.#search, [])) return true
    }
    return false
  }

  /** Finds out what stays on or off from earlier turns. @param pending the entries that are for this character */
  *#replay(pending: ReadonlySet<LoreEntry>): Steps<Timers> {
    const { book, conversation } = this.#request
    const timed: Timed[] = []
    let lengths: readonly number[] = []
    for (const entry of book.timed) {
      if (!pending.has(entry)) continue
      const rules = this.#rulesOf(entry)
      for (const field of entry.alsoScans) yield* this.#readField(field)
      const points = yield* conversation.earlier(this.#depthOf(entry, rules))
      const turns = points.filter(({ isAnswered }) => isAnswered).toReversed()
      lengths = turns.map(({ length }) => length)
      const mayStay = turns.map((turn) => rules.dontActivate === undefined && this.#conditionsHold(entry, rules, turn))
      const matches: boolean[] = []
      for (const [index, turn] of turns.entries()) {
        matches.push(mayStay[index] === true && (yield* this.#firedAt(entry, rules, turn)))
        if (this.#search.work.isDue) yield this.#search.work.owed()
      }
      timed.push({ entry, matches, mayStay })
    }
    const timers = yield* replayed(
      timed,
      lengths,
      (length, then) => this.#groupRules(new Set(), length, then),
      this.#search.work,
    )
    timers.goTo(conversation.length)
    return timers
  }

  /** Whether an entry's keys and lots called for it at an earlier turn; what only other lore called for is not replayed. */
  *#firedAt(entry: LoreEntry, rules: DecoratedRules, { window, length }: Earlier): Steps<boolean> {
    const { work } = this.#search
    work.left -= unitsOfEntry
    if (work.left <= 0 || entry.recursionLevel !== 0) return false
    const fields = entry.alsoScans.flatMap((field) => this.#fields.get(field) ?? [])
    const texts = [window, ...fields]
    if (!entry.constant) {
      if (fields.length === 0 && lacksAll(window, entry.keys)) return false
      if (!(yield* firstKeyIn(entry.keys, texts, entry, this.#search))) return false
    }
    if (!(yield* othersAllow(entry, rules, texts, this.#search, []))) return false
    const probability = rules.probability ?? entry.probability
    return probability >= 100 || this.#drawAt(entry, length) * 100 < probability
  }

  /** Of entries that share a group one stays; lots are drawn anew on each turn. */
  *#withoutGroupMates(found: readonly Match[]): Steps<readonly Match[]> {
    if (found.every(({ entry }) => entry.groups.length === 0)) return found
    const rules = this.#groupRules(this.#groups, this.#request.conversation.length, this.#timers)
    const losers = yield* groupLosers(found, rules, this.#search.work)
    if (losers.size === 0) return found
    for (const match of losers) this.dropped.push({ match, reason: 'group' })
    return found.filter((match) => !losers.has(match))
  }

  #groupRules(taken: Set<string>, length: number, timers: Timers): GroupRules {
    return { taken, isSticky: (entry) => timers.isSticky(entry), seed: () => this.#seedAt(length) }
  }
}

/** Whether an entry turns on what matched at earlier points of the conversation. */
function isReplayed({ keepAfterMatch, dontAfterMatch }: DecoratedRules): boolean {
  return keepAfterMatch === true || dontAfterMatch === true
}

/** Whether none of the keys occurs in a text, as far as a glance tells. */
function lacksAll(text: Haystack, keys: readonly LoreKey[]): boolean {
  for (const key of keys) if (key.hasMacro === true || !text.lacks(key)) return false
  return true
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
