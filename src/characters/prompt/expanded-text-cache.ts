import { type Clock, type Timer, unrefClock } from '../../clock.ts'
import type { Card } from '../cards/card.ts'
import type { LoreEntry } from '../lore/entry.ts'
import type { LoreKey } from '../lore/keys.ts'
import type { PromptSettings } from './settings.ts'

/** An expanded text, and the unknown macros in it. */
interface CachedText {
  readonly text: string
  readonly unknown: readonly string[]
}

/** Characters that are added for the other memory of a cached text or message, of a key, of a user, and of an unknown macro. */
export const overheadOfText = 100
const overheadOfKey = 200
const overheadOfUser = 1500
export const overheadOfName = 40
/**
 * The budget for the cached texts and keys of a card, in characters, overheads included. All users of the card share the budget.
 * When it is spent, running requests cache nothing more, and the next request starts with a new, empty cache.
 */
const maxKeptLength = 4 * 1024 ** 2
const maxKeptUsers = 100
/** The most characters that the caches of all cards have together: 32 MiB, because a character may take two bytes. */
const maxTotalLength = 16 * 1024 ** 2

/** A card with more cached characters is large: its unused texts are removed, as large cards are (`CardCache`). */
const largeLength = 512 * 1024
const largeTtlMs = 30_000

class CacheBudget {
  /** The characters that are spent. */
  spent = 0
  /** The timer of a large card. */
  expiry: Timer | undefined
  readonly #memory: TextMemory | undefined
  readonly #values: WeakRef<Map<string, unknown>> | undefined

  /** @param memory the memory of all cards, for values that stay after the request */
  constructor(memory?: TextMemory, values?: Map<string, unknown>) {
    this.#memory = memory
    this.#values = values && new WeakRef(values)
  }

  get isSpent(): boolean {
    return this.spent >= maxKeptLength
  }

  /**
   * Takes the characters of one value from the budget.
   * @returns whether the value may be cached: some budget was left before, and the value alone does not exceed the budget
   */
  spend(characters: number): boolean {
    if (characters > maxKeptLength || this.isSpent) return false
    this.spent += characters
    this.#memory?.add(this, characters)
    return true
  }

  /** Removes the cached values. Running requests cache nothing more. */
  close(): void {
    this.spent = maxKeptLength
    this.#values?.deref()?.clear()
    this.expiry?.close()
  }
}

/** The memory of the caches of all cards. When it is full, the caches of the least recently used cards are emptied. */
export class TextMemory {
  readonly #limit: number
  readonly #clock: Clock
  /** The budgets in the order of use. They refer to the texts weakly, because the texts refer to their cards. */
  readonly #budgets = new Set<CacheBudget>()
  #newest: CacheBudget | undefined
  #length = 0

  /** @param limit characters in all */
  constructor(limit = maxTotalLength, clock: Clock = unrefClock) {
    this.#limit = limit
    this.#clock = clock
  }

  /** Notes a use. */
  use(budget: CacheBudget): void {
    budget.expiry?.refresh()
    if (budget === this.#newest) return
    this.#budgets.delete(budget)
    this.#budgets.add(budget)
    this.#newest = budget
  }

  /** Adds characters that are spent from a budget. */
  add(budget: CacheBudget, characters: number): void {
    this.use(budget)
    this.#length += characters
    if (budget.spent > largeLength) budget.expiry ??= this.#clock.setTimeout(() => this.remove(budget), largeTtlMs)
    for (const oldest of this.#budgets) {
      if (this.#length <= this.#limit) return
      this.remove(oldest)
    }
  }

  /** Empties the cache of a card. */
  remove(budget: CacheBudget): void {
    if (!this.#budgets.delete(budget)) return
    this.#length -= budget.spent
    budget.close()
  }
}

/** The texts and keys of a card, expanded with the names of one user. */
export class ExpandedTextCache {
  readonly #texts = new Map<string | LoreEntry, CachedText>()
  readonly #keys = new Map<LoreKey, LoreKey>()
  readonly #budget: CacheBudget

  constructor(budget = new CacheBudget()) {
    this.#budget = budget
  }

  text(key: string | LoreEntry): CachedText | undefined {
    return this.#texts.get(key)
  }

  /** Caches a text, if the card's budget is not spent. */
  setText(key: string | LoreEntry, cached: CachedText): void {
    const length = cached.text.length + overheadOfText + cached.unknown.length * overheadOfName
    if (this.#budget.spend(length)) this.#texts.set(key, cached)
  }

  /** Subtracts a value from the budget before another cache keeps the value. @returns whether that cache may keep it */
  spend(characters: number): boolean {
    return this.#budget.spend(characters)
  }

  key(key: LoreKey): LoreKey | undefined {
    return this.#keys.get(key)
  }

  /** Caches an expanded key, if the card's budget is not spent. */
  setKey(key: LoreKey, expanded: LoreKey): void {
    // The key is also kept in lower case.
    if (this.#budget.spend(2 * expanded.written.length + overheadOfKey)) this.#keys.set(key, expanded)
  }
}

interface CachedUsers<T> {
  readonly budget: CacheBudget
  readonly values: Map<string, T>
}

/**
 * A cache of one value for each user of a card. Each value gets its own `ExpandedTextCache`, and all these caches of a card share
 * one budget. All cards share one `TextMemory`. Without this cache, a whole completion costs 43 % more CPU time, because each
 * prompt expands the card's texts again (docs/performance.md).
 */
export class UserCache<T> {
  readonly #bySettings = new WeakMap<PromptSettings, WeakMap<Card, CachedUsers<T>>>()
  readonly #memory: TextMemory

  constructor(memory = new TextMemory()) {
    this.#memory = memory
  }

  /** The value of a user. @param make makes the value of a new user */
  get(settings: PromptSettings, card: Card, user: string, make: (cache: ExpandedTextCache) => T): T {
    const byCard = this.#bySettings.get(settings) ?? new WeakMap<Card, CachedUsers<T>>()
    this.#bySettings.set(settings, byCard)
    let users = byCard.get(card)
    if (!users || users.budget.isSpent || users.values.size >= maxKeptUsers) {
      if (users) this.#memory.remove(users.budget)
      const values = new Map<string, T>()
      users = { budget: new CacheBudget(this.#memory, values), values }
      byCard.set(card, users)
    }
    const known = users.values.get(user)
    if (known !== undefined) {
      this.#memory.use(users.budget)
      return known
    }
    users.budget.spend(user.length + overheadOfUser)
    const made = make(new ExpandedTextCache(users.budget))
    users.values.set(user, made)
    return made
  }
}
