import type { OutputItem } from '../openai/response.ts'

/** Milliseconds for which a request can refer to an item. */
const keptMs = 3_600_000
/** The most characters of all items (about 32 MB of memory), and of the items of one account. */
const maxCharacters = 16 * 1024 ** 2
export const maxAccountCharacters = maxCharacters / 4

interface CachedItem {
  readonly account: number
  readonly item: OutputItem
  readonly characters: number
  readonly expiresAtMs: number
}

/**
 * The output items of responses by their ids, so that a client may refer to them in its next request. Items are only in memory,
 * and can be found for up to an hour. Each `keep` removes expired items. If the account, or all accounts together, have too many
 * characters, `keep` also removes the oldest items.
 */
export class OutputItemCache {
  /** The items by id, the oldest first. */
  readonly #items = new Map<string, CachedItem>()
  /** Characters by account. */
  readonly #accounts = new Map<number, number>()
  #characters = 0
  readonly #now: () => number

  /** @param now a monotonic clock in milliseconds */
  constructor(now: () => number) {
    this.#now = now
  }

  /** Keeps items of an account, except an item that is too large. */
  keep(account: number, items: readonly OutputItem[]): void {
    const expiresAtMs = this.#now() + keptMs
    for (const item of items) {
      const characters = JSON.stringify(item).length
      if (characters > maxAccountCharacters) continue
      this.#add({ account, item, characters, expiresAtMs })
    }
    this.#evict(account)
  }

  /** An output item of this account, and its number of characters. Undefined if the cache has no such item of the account. */
  find(account: number, id: string): Pick<CachedItem, 'item' | 'characters'> | undefined {
    const kept = this.#items.get(id)
    if (!kept || kept.account !== account || kept.expiresAtMs <= this.#now()) return undefined
    return kept
  }

  #add(kept: CachedItem): void {
    this.#items.set(kept.item.id, kept)
    this.#count(kept.account, kept.characters)
  }

  #count(account: number, characters: number): void {
    this.#characters += characters
    const left = (this.#accounts.get(account) ?? 0) + characters
    if (left > 0) this.#accounts.set(account, left)
    else this.#accounts.delete(account)
  }

  #evict(account: number): void {
    const now = this.#now()
    for (const [id, kept] of this.#items) {
      const isOver = this.#characters > maxCharacters || kept.expiresAtMs <= now
      const isOverOwn = (this.#accounts.get(account) ?? 0) > maxAccountCharacters
      if (!isOver && !isOverOwn) return
      if (!isOver && kept.account !== account) continue
      this.#items.delete(id)
      this.#count(kept.account, -kept.characters)
    }
  }
}
