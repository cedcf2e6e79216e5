import type { OutputItem } from '../openai/response.ts'

/** Milliseconds for which an item can be referred to. */
const keptMs = 3_600_000
/** Characters of all items, and of one account's: some 32 MB in memory, and a quarter of it. */
const mostCharacters = 16 * 1024 ** 2
const mostOfAccount = mostCharacters / 4

interface Kept {
  readonly account: number
  readonly item: OutputItem
  readonly characters: number
  readonly until: number
}

/**
 * The items that responses have put out, by their ids, so that a client may refer to them in its next request. They are in
 * memory alone, for an hour at most; the oldest go when there are too many, of an account or of all.
 */
export class OutputItemCache {
  /** The oldest first. */
  readonly #items = new Map<string, Kept>()
  readonly #accounts = new Map<number, number>()
  #characters = 0
  readonly #now: () => number

  /** @param now milliseconds that never go back */
  constructor(now: () => number) {
    this.#now = now
  }

  /** Keeps items of an account. */
  keep(account: number, items: readonly OutputItem[]): void {
    const until = this.#now() + keptMs
    for (const item of items) {
      const characters = JSON.stringify(item).length
      if (characters > mostOfAccount) continue
      this.#add({ account, item, characters, until })
    }
    this.#makeRoom(account)
  }

  /** An item that a response of the same account has put out; undefined where it is not there any more. */
  find(account: number, id: string): OutputItem | undefined {
    const kept = this.#items.get(id)
    if (!kept || kept.account !== account || kept.until <= this.#now()) return undefined
    return kept.item
  }

  #add(kept: Kept): void {
    this.#items.set(kept.item.id, kept)
    this.#count(kept.account, kept.characters)
  }

  #count(account: number, characters: number): void {
    this.#characters += characters
    const left = (this.#accounts.get(account) ?? 0) + characters
    if (left > 0) this.#accounts.set(account, left)
    else this.#accounts.delete(account)
  }

  #makeRoom(account: number): void {
    const now = this.#now()
    for (const [id, kept] of this.#items) {
      const isOver = this.#characters > mostCharacters || kept.until <= now
      const isOverOwn = (this.#accounts.get(account) ?? 0) > mostOfAccount
      if (!isOver && !isOverOwn) return
      if (!isOver && kept.account !== account) continue
      this.#items.delete(id)
      this.#count(kept.account, -kept.characters)
    }
  }
}
