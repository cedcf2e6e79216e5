import type { Card } from '../cards/card.ts'
import type { LoreEntry } from '../lore/entry.ts'
import type { LoreKey } from '../lore/scanned-text.ts'
import type { PromptSettings } from './settings.ts'

/** An expanded text, and the unknown macros in it. */
interface CachedText {
  readonly text: string
  readonly unknown: readonly string[]
}

/** Characters that are added to the length of a cached text or message, and of a cached key, for its other memory. */
export const overheadOfText = 100
const overheadOfKey = 200
/**
 * The budget for the cached texts and keys of a card, in characters, overheads included. All users of the card share the budget.
 * When it is spent, running requests cache nothing more, and the next request starts with a new, empty cache.
 */
const maxKeptLength = 4 * 1024 ** 2
const maxKeptUsers = 100

class CacheBudget {
  #spent = 0

  get isSpent(): boolean {
    return this.#spent >= maxKeptLength
  }

  /**
   * Takes the characters of one value from the budget.
   * @returns whether the value may be cached: some budget was left before, and the value alone does not exceed the budget
   */
  spend(characters: number): boolean {
    if (characters > maxKeptLength) return false
    const fits = !this.isSpent
    this.#spent += characters
    return fits
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
    if (this.#budget.spend(cached.text.length + overheadOfText)) this.#texts.set(key, cached)
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
    if (this.#budget.spend(expanded.written.length + overheadOfKey)) this.#keys.set(key, expanded)
  }
}

interface CachedUsers<T> {
  readonly budget: CacheBudget
  readonly values: Map<string, T>
}

/**
 * A cache of one value for each user of a card. Each value gets its own `ExpandedTextCache`, and all these caches of a card share
 * one budget. Without this cache, a whole completion costs 43 % more CPU time, because each prompt expands the card's texts again
 * (docs/performance.md).
 */
export class UserCache<T> {
  readonly #bySettings = new WeakMap<PromptSettings, WeakMap<Card, CachedUsers<T>>>()

  /** The value of a user. @param make makes the value of a new user */
  get(settings: PromptSettings, card: Card, user: string, make: (cache: ExpandedTextCache) => T): T {
    const byCard = this.#bySettings.get(settings) ?? new WeakMap<Card, CachedUsers<T>>()
    this.#bySettings.set(settings, byCard)
    let users = byCard.get(card)
    if (!users || users.budget.isSpent || users.values.size >= maxKeptUsers) {
      users = { budget: new CacheBudget(), values: new Map() }
      byCard.set(card, users)
    }
    const known = users.values.get(user)
    if (known !== undefined) return known
    const made = make(new ExpandedTextCache(users.budget))
    users.values.set(user, made)
    return made
  }
}
