import { spend } from '../../work/fuel.ts'
import { hashAfter } from '../macros/seeded-random.ts'
import type { Conversation, EarlierPoint } from './conversation.ts'
import type { DecoratedRules, LoreEntry, ScannedField } from './entry.ts'
import type { LoreKey } from './keys.ts'
import type { Lorebook } from './lorebook.ts'
import { firstKeyIn, type KeySearch, keyRulesOf, otherKeysIn, type ScannedText, scannedTextsOf } from './search.ts'
import { isTimed, type TimedHistory, type Timers, turnState } from './timers.ts'

/** The inputs that all book scans of a prompt share. */
export interface ScanRequest {
  readonly conversation: Conversation
  /** Called only for books with entries that are for some characters or kinds of replies. */
  readonly speaker: () => Speaker
  /** The index of this request's rules in `LoreEntry.decorators`, from `decoratorContext`. */
  readonly context: number
  /** The index of the active greeting; undefined when it is not known. */
  readonly greeting: number | undefined
  readonly fieldText: (field: ScannedField) => string
  readonly random: () => number
  readonly seed: string
}

/**
 * The character that speaks next, and the kind of its reply. They are compared with the `Audience` of an entry that is only for
 * some characters or kinds of replies.
 */
export interface Speaker {
  /** The names of the character (in the library, in the card, and its nickname) and its tags, in lower case. */
  readonly names: ReadonlySet<string>
  readonly tags: ReadonlySet<string>
  /** `continue` if the request ends with the beginning of a reply, which the model continues. */
  readonly reply: 'normal' | 'continue'
}

/** A book to scan, and the functions that expand its texts. */
export interface ScannedBook {
  readonly book: Lorebook
  readonly expandKey: (key: LoreKey) => LoreKey
  /** An entry's body in which the recursion searches for keys: with expanded macros and the texts of `{{hidden_key:…}}`. */
  readonly recursionText: (entry: LoreEntry) => string
}

/** The texts that all books of a scan search besides the conversation. */
export interface Recursion {
  /** The lore of all passes so far, and the lore of the newest pass that found lore. */
  readonly texts: ScannedText[]
  newest: readonly ScannedText[]
  /** Texts of the card, and the persona, in which some entries search for their keys too (`LoreEntry.alsoScans`). */
  readonly fields: Map<ScannedField, readonly ScannedText[]>
  /** The pass at which each recursion level begins; a missing level has not begun. Level 0 is for entries that do not wait. */
  readonly firstPasses: Map<number, number>
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
  readonly book: Lorebook
  readonly matches: Match[] = []
  readonly dropped: { match: Match; reason: DropReason }[] = []
  /** The matches of the newest pass. */
  found: readonly Match[] = []
  /** Entries that may match in a later pass. */
  #pending: readonly LoreEntry[]
  readonly #request: ScanRequest
  readonly #scanned: ScannedBook
  readonly #recursion: Recursion
  /** The primary keys of entries that wait for other keys. */
  readonly #primary = new Map<LoreEntry, LoreKey>()
  /** The draws of each turn, by the number of its messages. The long seed of a turn is read only once. */
  readonly #draws = new Map<number, (index: string) => number>()

  /** @param recursion the recursion that all books of a scan share */
  constructor(request: ScanRequest, scanned: ScannedBook, recursion: Recursion) {
    this.book = scanned.book
    this.#request = request
    this.#scanned = scanned
    this.#recursion = recursion
    const { entries, isFiltered } = scanned.book
    this.#pending = isFiltered ? entriesFor(entries, request.speaker()) : entries
  }

  /** Whether another pass may find more matches. */
  get isPending(): boolean {
    return this.#pending.length > 0
  }

  /** Finds the matches of one pass among the pending entries. @param timers the entries that earlier turns keep on or off */
  pass(pass: number, timers: Timers): void {
    const found: Match[] = []
    const later: LoreEntry[] = []
    for (const entry of this.#pending) {
      const rules = this.#rulesOf(entry)
      const verdict = this.#byRules(entry, rules, pass, timers) ?? this.#byKeys(entry, rules, pass)
      if (verdict === 'not yet') later.push(entry)
      else if (verdict !== 'never') found.push(verdict)
    }
    this.#request.conversation.budget.spend(unitsOfEntry * this.#pending.length)
    this.found = found
    this.#pending = later
  }

  /**
   * Ends the pass: drops the matches that lost in their group.
   * @param bodies receives the lore that the next pass searches; null if there is no next pass
   */
  settle(losers: ReadonlySet<Match>, bodies: string[] | null): void {
    for (const match of this.found) {
      if (losers.has(match)) {
        this.dropped.push({ match, reason: 'group' })
        continue
      }
      this.matches.push(match)
      if (!bodies || !this.book.recursive || match.entry.preventRecursion) continue
      const body = this.#scanned.recursionText(match.entry)
      bodies.push(body)
      this.#request.conversation.budget.spend(unitsOfEntry + (body.length >> 4))
    }
    this.found = []
    if (!this.book.recursive) this.#pending = []
  }

  #rulesOf({ decorators }: LoreEntry): DecoratedRules {
    return decorators[this.#request.context] ?? noRules
  }

  /** The verdict by rules and timers alone; undefined if the verdict depends on earlier matches or on keys. */
  #byRules(entry: LoreEntry, rules: DecoratedRules, pass: number, timers: Timers): Verdict | undefined {
    if (rules.activate) return { entry, rules, keys: [] }
    if (rules.dontActivate) return 'never'
    if (pass > 0) return entry.excludeRecursion ? 'never' : undefined
    if (timers.isCooling(entry)) return 'never'
    if (timers.isSticky(entry)) return this.#conditionsHold(entry, rules) ? { entry, rules, keys: [] } : 'never'
    if (dependsOnHistory(rules) && this.#matchedBefore(entry, rules)) {
      return rules.dontAfterMatch ? 'never' : { entry, rules, keys: [] }
    }
    return this.#conditionsHold(entry, rules) ? undefined : 'never'
  }

  /** The verdict of an entry whose keys must be searched for. */
  #byKeys(entry: LoreEntry, rules: DecoratedRules, pass: number): Verdict {
    const firstPass = this.#recursion.firstPasses.get(entry.recursionLevel) ?? Number.POSITIVE_INFINITY
    if (pass < firstPass) return 'not yet'
    const primary = entry.constant ? undefined : this.#primaryOf(entry, rules, pass === firstPass)
    if (primary || entry.constant) {
      const others = hasOtherKeys(entry, rules) ? otherKeysIn(entry, rules, this.#searchOf(entry, rules)) : []
      const keys = primary ? [primary] : []
      if (others) return this.#afterDraw({ entry, rules, keys: [...keys, ...others].map(({ written }) => written) })
    }
    if (this.#request.conversation.budget.unitsLeft > 0) return 'not yet'
    // The budget is spent, so perhaps not all keys were searched for. The entry is reported as dropped.
    this.dropped.push({ match: { entry, rules, keys: [] }, reason: 'limit' })
    return 'never'
  }

  /** The first primary key that occurs; undefined if no key occurs. */
  #primaryOf(entry: LoreEntry, rules: DecoratedRules, isFirstPass: boolean): LoreKey | undefined {
    const known = this.#primary.size > 0 ? this.#primary.get(entry) : undefined
    if (known) return known
    // After the entry's first pass, only the newest lore is searched, because earlier passes have searched all other texts.
    const search = this.#searchOf(entry, rules, isFirstPass ? undefined : this.#recursion.newest)
    const key = firstKeyIn(entry.keys, search)
    if (key && hasOtherKeys(entry, rules)) this.#primary.set(entry, key)
    return key
  }

  /** A search for the keys of an entry. @param texts by default all texts that the entry searches in this pass */
  #searchOf(entry: LoreEntry, rules: DecoratedRules, texts = this.#textsOf(entry, rules)): KeySearch {
    const { budget } = this.#request.conversation
    return { texts, rules: keyRulesOf(entry, rules), budget, expand: this.#scanned.expandKey }
  }

  /** The texts in which an entry's keys are searched for: the newest messages, its `alsoScans`, and lore of earlier passes. */
  #textsOf(entry: LoreEntry, rules: DecoratedRules): readonly ScannedText[] {
    const { texts } = this.#recursion
    const { conversation } = this.#request
    conversation.budget.spend(texts.length)
    const window = conversation.window(this.#depthOf(entry, rules))
    if (texts.length === 0 && entry.alsoScans.length === 0) return [window]
    return [window, ...this.#fieldsOf(entry), ...texts]
  }

  #depthOf(entry: LoreEntry, rules: DecoratedRules): number {
    return Math.max(0, Math.ceil(rules.scanDepth ?? entry.scanDepth ?? this.book.scanDepth))
  }

  /** The texts of an entry's `alsoScans`. */
  #fieldsOf({ alsoScans }: LoreEntry): readonly ScannedText[] {
    const { fields } = this.#recursion
    return alsoScans.flatMap((field) => {
      const { conversation, fieldText } = this.#request
      const texts = fields.get(field) ?? scannedTextsOf(fieldText(field), conversation.budget)
      fields.set(field, texts)
      return texts
    })
  }

  #conditionsHold(
    { delay }: LoreEntry,
    { onlyAfter = 0, onlyEvery = 1, greeting }: DecoratedRules,
    point?: EarlierPoint,
  ): boolean {
    const { conversation, greeting: active } = this.#request
    const { characterMessages, length } = point ?? conversation
    return (
      characterMessages >= onlyAfter &&
      characterMessages % onlyEvery === 0 &&
      (point ? length : conversation.messages.length) >= delay &&
      (greeting === undefined || active === undefined || greeting === active)
    )
  }

  /** Applies the probability of an entry that matched. */
  #afterDraw(match: Match): Verdict {
    const { entry, rules } = match
    const { conversation, random } = this.#request
    const isReplayed = isTimed(entry) || dependsOnHistory(rules)
    const draw = isReplayed ? this.#drawAtTurn(entry, conversation.length) : random()
    if (isLucky(entry, rules, () => draw)) return match
    this.dropped.push({ match, reason: 'probability' })
    return 'never'
  }

  /** The draw of an entry at a turn, from 0 to 1. Later requests that replay the turn get the same draw. */
  #drawAtTurn(entry: LoreEntry, length: number): number {
    const draw = this.#draws.get(length) ?? hashAfter(`${seedAt(this.#request, length)}/`)
    this.#draws.set(length, draw)
    spend(unitsOfDraw)
    return draw(String(entry.index)) / 2 ** 32
  }

  /**
   * Whether an entry matched at an earlier turn. The service stores no conversations, so the earlier messages of the request are
   * searched again.
   */
  #matchedBefore(entry: LoreEntry, rules: DecoratedRules): boolean {
    const { conversation } = this.#request
    return conversation.earlierPoints(this.#depthOf(entry, rules)).some((point) => {
      if (conversation.budget.unitsLeft <= 0 || !point.isAnswered) return false
      return this.#conditionsHold(entry, rules, point) && this.#matchedAt(entry, rules, point)
    })
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
      const points = this.#request.conversation.earlierPoints(this.#depthOf(entry, rules))
      const turns = points.filter(({ isAnswered }) => isAnswered).toReversed()
      lengths ??= turns.map(({ length }) => length)
      const states = Uint8Array.from(turns, (turn) => {
        if (rules.dontActivate || !this.#conditionsHold(entry, rules, turn)) return turnState.off
        return this.#matchedAt(entry, rules, turn) ? turnState.matches : turnState.mayStay
      })
      timed.push({ entry, lengths, states })
    }
    return timed
  }

  /** Whether an entry matched at an earlier turn, by its keys and its draw. The recursion is not replayed. */
  #matchedAt(entry: LoreEntry, rules: DecoratedRules, { window, length }: EarlierPoint): boolean {
    const { budget } = this.#request.conversation
    budget.spend(unitsOfEntry)
    if (budget.unitsLeft <= 0 || entry.recursionLevel !== 0) return false
    const search = this.#searchOf(entry, rules, [window, ...this.#fieldsOf(entry)])
    if (!entry.constant && !firstKeyIn(entry.keys, search)) return false
    return (
      otherKeysIn(entry, rules, search) !== undefined && isLucky(entry, rules, () => this.#drawAtTurn(entry, length))
    )
  }
}

/** The entries that are for this character and this kind of reply. */
function entriesFor(entries: readonly LoreEntry[], { names, tags, reply }: Speaker): readonly LoreEntry[] {
  return entries.filter(({ audience }) => {
    spend(unitsOfEntry + (audience ? audience.names.length + audience.tags.length + audience.replies.length : 0))
    if (!audience) return true
    // Each list must allow the character, as in SillyTavern.
    const allows = (listed: readonly string[], own: ReadonlySet<string>) =>
      listed.length === 0 || listed.some((each) => own.has(each)) !== audience.isExcluding
    const { replies } = audience
    return (
      (replies.length === 0 || replies.includes(reply)) && allows(audience.names, names) && allows(audience.tags, tags)
    )
  })
}

/** Whether a draw lets an entry fire. @param draw called only if the entry may fail */
function isLucky({ probability }: LoreEntry, rules: DecoratedRules, draw: () => number): boolean {
  const percent = rules.probability ?? probability
  return percent >= 100 || draw() * 100 < percent
}

function hasOtherKeys({ secondaryKeys }: LoreEntry, { additional, excluded }: DecoratedRules): boolean {
  return secondaryKeys.length + additional.length + excluded.length > 0
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
