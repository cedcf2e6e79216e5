import type { Steps } from '../../work.ts'
import { hashOf } from '../macros/seeded-random.ts'
import { entriesFor, type Speaker } from './audience.ts'
import type { Conversation, Earlier } from './conversation.ts'
import type { DecoratedRules, LoreEntry, ScannedField } from './entry.ts'
import { firstKeyIn, type Haystack, haystacksOf, type KeySearch, type LoreKey } from './haystack.ts'
import { othersAllow } from './key-match.ts'
import type { Lorebook } from './lorebook.ts'
import type { Recursion } from './recursion.ts'
import { isTimed, noTimers, type Timed, type Timers } from './timers.ts'

/** What all books of a prompt are scanned with. */
export interface ScanRequest {
  readonly conversation: Conversation
  /** Asked only for a book that is not for everybody. */
  readonly speaker: () => Speaker
  /** `decoratorContext`'s number. */
  readonly context: number
  /** The active greeting, where it can be told. */
  readonly greeting: number | undefined
  readonly fieldText: (field: ScannedField) => Steps<string>
  readonly random: () => number
  readonly seed: string
}

/** A book that is scanned, and how its texts are read. */
export interface ScannedBook {
  readonly book: Lorebook
  readonly expandKey: (key: LoreKey) => Steps<LoreKey>
  /** A body as it is looked through by the recursion: expanded, hidden keys shown. */
  readonly recursionText: (entry: LoreEntry) => Steps<string>
}

/** An entry that matched, by which keys; or why it does not stay although it did. */
export interface Match {
  readonly entry: LoreEntry
  readonly rules: DecoratedRules
  readonly keys: readonly string[]
}

export type DropReason = 'probability' | 'group' | 'limit' | 'budget' | 'context' | 'position'

/** What was found in a book. */
export interface Scanned {
  readonly book: Lorebook
  readonly matches: readonly Match[]
  readonly dropped: readonly { readonly match: Match; readonly reason: DropReason }[]
}

/** Units of work of one entry, beside its keys. */
const unitsOfEntry = 5

type Verdict = 'never' | 'not yet' | Match

/** One book as it is scanned together with others, pass by pass. */
export class BookScan implements Scanned {
  readonly matches: Match[] = []
  readonly dropped: { match: Match; reason: DropReason }[] = []
  /** What the newest pass found. */
  found: readonly Match[] = []
  /** Entries that may match in a later pass. */
  #pending: readonly LoreEntry[]
  readonly #request: ScanRequest
  readonly #scanned: ScannedBook
  readonly #recursion: Recursion
  readonly #now: Pick<Earlier, 'length' | 'saidByCharacter'>
  readonly #search: KeySearch
  readonly #primary = new Map<LoreEntry, string>()
  /** What stays on or off from earlier turns. */
  #timers = noTimers

  /** @param recursion what all books have in common that are scanned together */
  constructor(request: ScanRequest, scanned: ScannedBook, recursion: Recursion) {
    this.#request = request
    this.#scanned = scanned
    this.#recursion = recursion
    this.#pending = scanned.book.entries
    const { messages, saidByCharacter } = request.conversation
    this.#now = { length: messages.length, saidByCharacter }
    this.#search = { work: request.conversation.work, expand: scanned.expandKey }
  }

  get book(): Lorebook {
    return this.#scanned.book
  }

  /** Leaves the entries that are for this character and this reply. */
  *filter(): Steps<void> {
    this.#pending = yield* entriesFor(this.book, this.#request.speaker())
  }

  /** Whether another pass may find more. */
  get isPending(): boolean {
    return this.#pending.length > 0
  }

  /** Ends the pass: what lost against others of its group goes. @param bodies is added what the next pass looks through */
  *settle(losers: ReadonlySet<Match>, bodies: string[]): Steps<void> {
    for (const match of this.found) {
      if (losers.has(match)) {
        this.dropped.push({ match, reason: 'group' })
        continue
      }
      this.matches.push(match)
      if (!this.book.recursive || match.entry.preventRecursion) continue
      bodies.push(yield* this.#scanned.recursionText(match.entry))
    }
    this.found = []
    if (!this.book.recursive) this.#pending = []
  }

  #firstPassOf({ recursionLevel }: LoreEntry): number {
    return this.#recursion.firstPassOf(recursionLevel)
  }

  /** Judges the entries that may still match. @param timers what stays on or off from earlier turns */
  *pass(pass: number, timers: Timers): Steps<void> {
    this.#timers = timers
    const { work } = this.#search
    const found: Match[] = []
    const later: LoreEntry[] = []
    const pending = this.#pending
    // By their places, as in `firstKeyIn`.
    for (let e = 0, entry = pending[0]; entry; entry = pending[++e]) {
      const verdict = this.#atAGlance(entry, pass) ?? (yield* this.#judge(entry, pass))
      if (verdict === 'not yet') later.push(entry)
      else if (verdict !== 'never') found.push(verdict)
      work.left -= unitsOfEntry
      if (work.isDue) yield work.owed()
    }
    this.found = found
    this.#pending = later
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
    for (const text of this.#recursion.newest) if (!lacksAll(text, entry.keys)) return undefined
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
    return hashOf(`${seedAt(this.#request, length)}/${entry.index}`) / 2 ** 32
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
    const texts = pass === this.#firstPassOf(entry) ? this.#textsOf(entry, rules) : this.#recursion.newest
    const key = yield* firstKeyIn(entry.keys, texts, entry, this.#search)
    if (key) this.#primary.set(entry, key.written)
    return key?.written
  }

  /** Where an entry's keys are looked for: its window, texts of the card that were read, and what the recursion brought. */
  #textsOf(entry: LoreEntry, rules: DecoratedRules): readonly Haystack[] {
    const { texts: brought, fields } = this.#recursion
    this.#search.work.left -= brought.length
    const texts = [this.#windowOf(entry, rules)]
    for (const field of entry.alsoScans) texts.push(...(fields.get(field) ?? []))
    return brought.length === 0 ? texts : [...texts, ...brought]
  }

  #windowOf(entry: LoreEntry, rules: DecoratedRules): Haystack {
    return this.#request.conversation.window(this.#depthOf(entry, rules))
  }

  #depthOf(entry: LoreEntry, rules: DecoratedRules): number {
    return Math.max(0, Math.ceil(rules.scanDepth ?? entry.scanDepth ?? this.book.scanDepth))
  }

  *#readField(field: ScannedField): Steps<void> {
    const { fields } = this.#recursion
    if (fields.has(field)) return
    fields.set(field, yield* haystacksOf(yield* this.#request.fieldText(field), this.#search.work))
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

  /**
   * At which earlier turns entries would have fired; none for those that are not for this character.
   * @param watched entries that stay on or off after they fired, and those that share a group with one, of this book and others
   */
  *history(watched: ReadonlySet<LoreEntry>): Steps<readonly Timed[]> {
    const timed: Timed[] = []
    for (const entry of this.#pending) {
      if (!watched.has(entry)) continue
      const rules = this.#rulesOf(entry)
      for (const field of entry.alsoScans) yield* this.#readField(field)
      const points = yield* this.#request.conversation.earlier(this.#depthOf(entry, rules))
      const turns = points.filter(({ isAnswered }) => isAnswered).toReversed()
      const mayStay = turns.map((turn) => rules.dontActivate === undefined && this.#conditionsHold(entry, rules, turn))
      const matches: boolean[] = []
      for (const [index, turn] of turns.entries()) {
        matches.push(mayStay[index] === true && (yield* this.#firedAt(entry, rules, turn)))
        if (this.#search.work.isDue) yield this.#search.work.owed()
      }
      timed.push({ entry, lengths: turns.map(({ length }) => length), matches, mayStay })
    }
    return timed
  }

  /** Whether an entry's keys and lots called for it at an earlier turn; what only other lore called for is not replayed. */
  *#firedAt(entry: LoreEntry, rules: DecoratedRules, { window, length }: Earlier): Steps<boolean> {
    const { work } = this.#search
    work.left -= unitsOfEntry
    if (work.left <= 0 || entry.recursionLevel !== 0) return false
    const fields = entry.alsoScans.flatMap((field) => this.#recursion.fields.get(field) ?? [])
    const texts = [window, ...fields]
    if (!entry.constant) {
      if (fields.length === 0 && lacksAll(window, entry.keys)) return false
      if (!(yield* firstKeyIn(entry.keys, texts, entry, this.#search))) return false
    }
    if (!(yield* othersAllow(entry, rules, texts, this.#search, []))) return false
    const probability = rules.probability ?? entry.probability
    return probability >= 100 || this.#drawAt(entry, length) * 100 < probability
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

/** What lots of a turn are drawn from: the card, and the conversation as it was then. */
export function seedAt({ seed, conversation }: ScanRequest, length: number): string {
  return `${seed}/${conversation.turnAt(length)}`
}
