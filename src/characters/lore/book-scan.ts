import { spend } from '../../work/fuel.ts'
import { hashAfter } from '../macros/seeded-random.ts'
import { entriesFor, type Speaker } from './audience.ts'
import type { Conversation, EarlierPoint } from './conversation.ts'
import type { DecoratedRules, LoreEntry, ScannedField } from './entry.ts'
import { allowsGlance, lacksAllKeys } from './glance.ts'
import { keyRulesOf, otherKeysAllow } from './key-match.ts'
import type { Lorebook } from './lorebook.ts'
import type { Recursion } from './recursion.ts'
import { firstKeyIn, type KeySearch, type LoreKey, type ScannedText, scannedTextsOf } from './scanned-text.ts'
import { BitList, isTimed, noTimers, type TimedHistory, type Timers } from './timers.ts'

/** The inputs that all book scans of a prompt share. */
export interface ScanRequest {
  readonly conversation: Conversation
  /** Called only if a book has entries that are for some characters or kinds of replies. */
  readonly speaker: () => Speaker
  /** The index of this request's rules in `LoreEntry.decorators`, from `decoratorContext`. */
  readonly context: number
  /** The index of the active greeting; undefined when it is not known. */
  readonly greeting: number | undefined
  readonly fieldText: (field: ScannedField) => string
  readonly random: () => number
  readonly seed: string
}

/** A book to scan, and the functions that expand its texts. */
export interface ScannedBook {
  readonly book: Lorebook
  readonly expandKey: (key: LoreKey) => LoreKey
  /** An entry's body in which the recursion searches for keys: with expanded macros and the texts of `{{hidden_key:…}}`. */
  readonly recursionText: (entry: LoreEntry) => string
}

/** An entry that matched or was dropped, the rules of its decorators, and the keys that were found. */
export interface Match {
  readonly entry: LoreEntry
  readonly rules: DecoratedRules
  readonly keys: readonly string[]
}

export type DropReason = 'probability' | 'group' | 'limit' | 'budget' | 'context' | 'position'

/** The result of a book's scan: the matches, and the dropped entries with their reasons. */
export interface Scanned {
  readonly book: Lorebook
  readonly matches: readonly Match[]
  readonly dropped: readonly { readonly match: Match; readonly reason: DropReason }[]
}

/** Units of work for one entry, besides its keys, and for one draw. */
const unitsOfEntry = 5
const unitsOfDraw = 15

type Verdict = 'never' | 'not yet' | Match

/** The scan of one book. `scanBooks` runs each pass in all books before it begins the next pass. */
export class BookScan implements Scanned {
  readonly matches: Match[] = []
  readonly dropped: { match: Match; reason: DropReason }[] = []
  /** The matches of the newest pass. */
  found: readonly Match[] = []
  /** Entries that may match in a later pass. */
  #pending: readonly LoreEntry[]
  readonly #request: ScanRequest
  readonly #scanned: ScannedBook
  readonly #recursion: Recursion
  readonly #now: Pick<EarlierPoint, 'length' | 'characterMessages'>
  readonly #search: KeySearch
  readonly #primary = new Map<LoreEntry, string>()
  /** The entries that stay on or off because they fired at earlier turns. */
  #timers = noTimers
  /** The draws of each turn, by the number of its messages. The long seed of a turn is read only once. */
  readonly #draws = new Map<number, (index: string) => number>()

  /** @param recursion the recursion that all books of a scan share */
  constructor(request: ScanRequest, scanned: ScannedBook, recursion: Recursion) {
    this.#request = request
    this.#scanned = scanned
    this.#recursion = recursion
    this.#pending = scanned.book.entries
    const { messages, characterMessages } = request.conversation
    this.#now = { length: messages.length, characterMessages }
    this.#search = { budget: request.conversation.budget, expand: scanned.expandKey }
  }

  get book(): Lorebook {
    return this.#scanned.book
  }

  /** Removes the entries that are for other characters or replies. */
  filter(): void {
    this.#pending = entriesFor(this.book, this.#request.speaker())
  }

  /** Whether another pass may find more matches. */
  get isPending(): boolean {
    return this.#pending.length > 0
  }

  /**
   * Ends the pass: drops the matches that lost in their group.
   * @param bodies receives the lore that the next pass searches; null if there is no next pass
   */
  settle(losers: ReadonlySet<Match>, bodies: string[] | null): void {
    const { budget } = this.#search
    for (const match of this.found) {
      if (losers.has(match)) {
        this.dropped.push({ match, reason: 'group' })
        continue
      }
      this.matches.push(match)
      if (!bodies || !this.book.recursive || match.entry.preventRecursion) continue
      const body = this.#scanned.recursionText(match.entry)
      bodies.push(body)
      budget.spend(unitsOfEntry + (body.length >> 4))
    }
    this.found = []
    if (!this.book.recursive) this.#pending = []
  }

  #firstPassOf({ recursionLevel }: LoreEntry): number {
    return this.#recursion.firstPassOf(recursionLevel)
  }

  /** Finds the matches of one pass among the pending entries. @param timers the entries that earlier turns keep on or off */
  pass(pass: number, timers: Timers): void {
    this.#timers = timers
    const { budget } = this.#search
    const found: Match[] = []
    const later: LoreEntry[] = []
    const pending = this.#pending
    for (const entry of pending) {
      const rules = this.#rulesOf(entry)
      const decided = this.#byRules(entry, rules, pass)
      const verdict =
        decided ?? (this.#lacksAtGlance(entry, rules, pass) ? 'not yet' : this.#byKeys(entry, rules, pass))
      if (verdict === 'not yet') later.push(entry)
      else if (verdict !== 'never') found.push(verdict)
      budget.spend(unitsOfEntry)
    }
    this.found = found
    this.#pending = later
  }

  /** Whether a glance (`allowsGlance`) shows that the keys of an entry do not occur in the texts of this pass. */
  #lacksAtGlance(entry: LoreEntry, rules: DecoratedRules, pass: number): boolean {
    if (!allowsGlance(entry) || this.#search.budget.unitsLeft <= 0) return false
    if (pass === 0) return !dependsOnHistory(rules) && lacksAllKeys(this.#windowOf(entry, rules), entry.keys)
    if (this.#primary.size > 0 && this.#primary.has(entry)) return false
    for (const text of this.#recursion.newest) if (!lacksAllKeys(text, entry.keys)) return false
    return true
  }

  /** The verdict of an entry whose keys must be searched for. */
  #byKeys(entry: LoreEntry, rules: DecoratedRules, pass: number): Verdict {
    const replayed = pass === 0 && dependsOnHistory(rules) ? this.#byReplay(entry, rules) : undefined
    if (replayed !== undefined) return replayed
    if (pass < this.#firstPassOf(entry)) return 'not yet'
    for (const field of entry.alsoScans) this.#readField(field)
    const keys = this.#keysOf(entry, rules, pass)
    if (keys) return this.#afterDraw({ entry, rules, keys })
    if (this.#search.budget.unitsLeft > 0) return 'not yet'
    // The budget is spent, so perhaps not all keys were searched for. The entry is reported as dropped.
    this.dropped.push({ match: { entry, rules, keys: [] }, reason: 'limit' })
    return 'never'
  }

  /** The verdict of an entry that depends on its earlier matches; undefined if its keys must be searched for. */
  #byReplay(entry: LoreEntry, rules: DecoratedRules): Verdict | undefined {
    if (this.#matchedBefore(entry, rules)) {
      return rules.dontAfterMatch ? 'never' : { entry, rules, keys: [] }
    }
    return this.#conditionsHold(entry, rules) ? undefined : 'never'
  }

  #rulesOf({ decorators }: LoreEntry): DecoratedRules {
    return decorators[this.#request.context] ?? noRules
  }

  /** The verdict by rules and timers alone; undefined if the verdict depends on earlier matches or on keys. */
  #byRules(entry: LoreEntry, rules: DecoratedRules, pass: number): Verdict | undefined {
    if (rules.activate) return { entry, rules, keys: [] }
    if (rules.dontActivate) return 'never'
    if (pass > 0) return entry.excludeRecursion ? 'never' : undefined
    if (this.#timers.isCooling(entry)) return 'never'
    if (this.#timers.isSticky(entry)) return this.#conditionsHold(entry, rules) ? { entry, rules, keys: [] } : 'never'
    // After an earlier match, `@@keep_activate_after_match` needs no conditions. Without such a match, `#byReplay` checks them.
    if (rules.keepAfterMatch) return undefined
    return this.#conditionsHold(entry, rules) ? undefined : 'never'
  }

  /** Applies the probability of an entry that matched. */
  #afterDraw(match: Match): Verdict {
    const probability = match.rules.probability ?? match.entry.probability
    const { conversation, random } = this.#request
    const draw =
      isTimed(match.entry) || dependsOnHistory(match.rules)
        ? this.#drawAtTurn(match.entry, conversation.length)
        : random()
    if (probability >= 100 || draw * 100 < probability) return match
    this.dropped.push({ match, reason: 'probability' })
    return 'never'
  }

  /** The draw of an entry at a turn, from 0 to 1. Later requests that replay the turn get the same draw. */
  #drawAtTurn(entry: LoreEntry, length: number): number {
    const known = this.#draws.get(length)
    const draw = known ?? hashAfter(`${seedAt(this.#request, length)}/`)
    if (!known) this.#draws.set(length, draw)
    spend(unitsOfDraw)
    return draw(String(entry.index)) / 2 ** 32
  }

  #conditionsHold(
    { delay }: LoreEntry,
    { onlyAfter = 0, onlyEvery = 1, greeting }: DecoratedRules,
    { length, characterMessages }: Pick<EarlierPoint, 'length' | 'characterMessages'> = this.#now,
  ): boolean {
    return (
      characterMessages >= onlyAfter &&
      characterMessages % onlyEvery === 0 &&
      length >= delay &&
      (greeting === undefined || this.#request.greeting === undefined || greeting === this.#request.greeting)
    )
  }

  /** The found keys of an entry that matches now; undefined if it does not match. */
  #keysOf(entry: LoreEntry, rules: DecoratedRules, pass: number): readonly string[] | undefined {
    const key = entry.constant ? undefined : this.#primaryOf(entry, rules, pass)
    if (!entry.constant && key === undefined) return undefined
    const matched = key === undefined ? [] : [key]
    const isFree = entry.secondaryKeys.length === 0 && rules.additional.length === 0 && rules.excluded.length === 0
    if (isFree) return matched
    const texts = this.#textsOf(entry, rules)
    return otherKeysAllow(entry, rules, texts, this.#search, matched) ? matched : undefined
  }

  /** The first primary key that occurs; undefined if no key occurs. */
  #primaryOf(entry: LoreEntry, rules: DecoratedRules, pass: number): string | undefined {
    const known = this.#primary.get(entry)
    if (known !== undefined || entry.keys.length === 0) return known
    // After the entry's first pass, only the newest lore is searched, because earlier passes have searched all other texts.
    const texts = pass === this.#firstPassOf(entry) ? this.#textsOf(entry, rules) : this.#recursion.newest
    const key = firstKeyIn(entry.keys, texts, keyRulesOf(entry, rules), this.#search)
    if (key) this.#primary.set(entry, key.written)
    return key?.written
  }

  /** The texts in which an entry's keys are searched for: the newest messages, its `alsoScans`, and lore of earlier passes. */
  #textsOf(entry: LoreEntry, rules: DecoratedRules): readonly ScannedText[] {
    const { texts: brought, fields } = this.#recursion
    this.#search.budget.spend(brought.length)
    const texts = [this.#windowOf(entry, rules)]
    for (const field of entry.alsoScans) texts.push(...(fields.get(field) ?? []))
    return brought.length === 0 ? texts : [...texts, ...brought]
  }

  #windowOf(entry: LoreEntry, rules: DecoratedRules): ScannedText {
    return this.#request.conversation.window(this.#depthOf(entry, rules))
  }

  #depthOf(entry: LoreEntry, rules: DecoratedRules): number {
    return Math.max(0, Math.ceil(rules.scanDepth ?? entry.scanDepth ?? this.book.scanDepth))
  }

  #readField(field: ScannedField): void {
    const { fields } = this.#recursion
    if (fields.has(field)) return
    fields.set(field, scannedTextsOf(this.#request.fieldText(field), this.#search.budget))
  }

  /**
   * Whether an entry matched at an earlier turn. The service stores no conversations, so the earlier messages of the request are
   * searched again.
   */
  #matchedBefore(entry: LoreEntry, rules: DecoratedRules): boolean {
    const { budget } = this.#search
    for (const field of entry.alsoScans) this.#readField(field)
    for (const point of this.#request.conversation.earlierPoints(this.#depthOf(entry, rules))) {
      if (budget.unitsLeft <= 0) return false
      if (!point.isAnswered || !this.#conditionsHold(entry, rules, point)) continue
      if (this.#matchedAt(entry, rules, point)) return true
    }
    return false
  }

  /**
   * The matches of the watched entries at the earlier turns. Timers and groups are not applied yet.
   * @param watched entries of all books that have timers, or share a group with an entry that has timers
   */
  history(watched: ReadonlySet<LoreEntry>): readonly TimedHistory[] {
    const timed: TimedHistory[] = []
    let lengths: readonly number[] | undefined
    for (const entry of this.#pending) {
      if (!watched.has(entry)) continue
      const rules = this.#rulesOf(entry)
      for (const field of entry.alsoScans) this.#readField(field)
      const points = this.#request.conversation.earlierPoints(this.#depthOf(entry, rules))
      const turns = points.filter(({ isAnswered }) => isAnswered).toReversed()
      lengths ??= turns.map(({ length }) => length)
      const matches = new BitList()
      const mayStay = new BitList()
      for (const turn of turns) {
        const holds = rules.dontActivate === undefined && this.#conditionsHold(entry, rules, turn)
        mayStay.push(holds)
        matches.push(holds && this.#matchedAt(entry, rules, turn))
      }
      timed.push({ entry, lengths, matches, mayStay })
    }
    return timed
  }

  /** Whether an entry matched at an earlier turn, by its keys and its draw. The recursion is not replayed. */
  #matchedAt(entry: LoreEntry, rules: DecoratedRules, { window, length }: EarlierPoint): boolean {
    const { budget } = this.#search
    budget.spend(unitsOfEntry)
    if (budget.unitsLeft <= 0 || entry.recursionLevel !== 0) return false
    const fields = entry.alsoScans.flatMap((field) => this.#recursion.fields.get(field) ?? [])
    const texts = [window, ...fields]
    if (!entry.constant) {
      if (fields.length === 0 && lacksAllKeys(window, entry.keys)) return false
      if (!firstKeyIn(entry.keys, texts, keyRulesOf(entry, rules), this.#search)) return false
    }
    if (!otherKeysAllow(entry, rules, texts, this.#search, [])) return false
    const probability = rules.probability ?? entry.probability
    return probability >= 100 || this.#drawAtTurn(entry, length) * 100 < probability
  }
}

/** Whether the rules of an entry depend on its matches at earlier turns. */
function dependsOnHistory({ keepAfterMatch, dontAfterMatch }: DecoratedRules): boolean {
  return keepAfterMatch === true || dontAfterMatch === true
}

const noRules: DecoratedRules = { additional: [], excluded: [] }

/** The seed of a turn's draws: the card, and the conversation at that turn. */
export function seedAt({ seed, conversation }: ScanRequest, length: number): string {
  return `${seed}/${conversation.turnKeyAt(length)}`
}
