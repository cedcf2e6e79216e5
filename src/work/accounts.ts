import type { Clock } from '../clock.ts'

/** Waiting items of accounts. The accounts are served in turn, and the items of one account in their order. */
export class AccountQueue<Item> {
  /** The items of each account. The first account in the map is served next. */
  readonly #items = new Map<number, Item[]>()

  /** The number of all items. */
  get size(): number {
    return [...this.#items.values()].reduce((sum, items) => sum + items.length, 0)
  }

  /** The number of items of an account. */
  sizeOf(account: number): number {
    return this.#items.get(account)?.length ?? 0
  }

  push(account: number, item: Item): void {
    const items = this.#items.get(account)
    if (items) items.push(item)
    else this.#items.set(account, [item])
  }

  /** Takes the next item of the first account that `isAllowed`. The account moves to the end. */
  take(isAllowed: (account: number) => boolean = () => true): Item | undefined {
    for (const [account, items] of this.#items) {
      if (!isAllowed(account)) continue
      const item = items.shift()
      this.#items.delete(account)
      if (items.length > 0) this.#items.set(account, items)
      return item
    }
    return undefined
  }

  /** Removes an item. It has no effect on an item that does not wait. */
  remove(account: number, item: Item): void {
    const items = this.#items.get(account) ?? []
    const index = items.indexOf(item)
    if (index < 0) return
    items.splice(index, 1)
    if (items.length === 0) this.#items.delete(account)
  }
}

/** Accounts that are remembered for some time. */
export class RecentAccounts {
  readonly #clock: Clock
  readonly #milliseconds: number
  /** The end of the time of each account, in ascending order. */
  readonly #ends = new Map<number, number>()

  constructor(clock: Clock, milliseconds: number) {
    this.#clock = clock
    this.#milliseconds = milliseconds
  }

  /** Remembers an account from now on. */
  add(account: number): void {
    const now = this.#clock.now()
    for (const [oldest, end] of this.#ends) {
      if (end > now) break
      this.#ends.delete(oldest)
    }
    this.#ends.delete(account)
    this.#ends.set(account, now + this.#milliseconds)
  }

  has(account: number): boolean {
    const end = this.#ends.get(account)
    return end !== undefined && end > this.#clock.now()
  }
}
