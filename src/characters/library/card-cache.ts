import { type Clock, type Timer, unrefClock } from '../../clock.ts'
import type { Card } from '../cards/card.ts'
import type { LoreEntry } from '../lore/entry.ts'
import type { LoreKey } from '../lore/scanned-text.ts'

/** A cached card, and its estimated bytes of memory. */
interface CachedCard {
  readonly card: Card
  readonly bytes: number
}

/**
 * Estimated bytes of memory for each byte of a card's JSON. A text with a letter outside Latin-1 takes two bytes for each
 * character. Short strings are views of the whole JSON, which therefore stays in memory, and long strings are copies.
 */
const bytesOfJsonByte = 4
/** Estimated bytes of memory of a lorebook entry, of a key, and of an item of another list, besides its characters. */
const bytesOfEntry = 1000
const bytesOfKey = 500
const bytesOfItem = 60

/** A card that takes more bytes of memory is a large card. */
const largeBytes = 1024 ** 2
/** Milliseconds that an unused large card stays in the cache: attackers may upload large cards only to occupy memory. */
const largeTtlMs = 30_000

/**
 * Estimates the bytes of memory of a card: its texts and its parsed lore.
 * @param documentBytes the bytes of the card's JSON, unpacked
 */
export function memoryOf({ greetings, book }: Card, documentBytes: number): number {
  let bytes = bytesOfJsonByte * documentBytes + bytesOfItem * greetings.length
  for (const entry of book?.entries ?? []) {
    const { names = [], tags = [], replies = [] } = entry.audience ?? {}
    bytes += bytesOfEntry + bytesOfItem * (names.length + tags.length + replies.length)
    for (const keys of listsOf(entry)) {
      bytes += bytesOfKey * keys.length
      for (const { pattern } of keys) bytes += pattern?.bytes ?? 0
    }
  }
  return bytes
}

/** The lists of keys of an entry. Several contexts may share a list of a decorator. */
function listsOf({ keys, secondaryKeys, decorators }: LoreEntry): Iterable<readonly LoreKey[]> {
  const lists = [keys, secondaryKeys]
  for (const { additional, excluded } of decorators) lists.push(...additional, ...excluded)
  return lists.length === 2 ? lists : new Set(lists)
}

/**
 * An LRU cache of cards, by the digest of their source. It has one object for each card, because other caches use that object as
 * the key of values made from the card, such as its expanded texts.
 */
export class CardCache {
  readonly #limit: number
  readonly #clock: Clock
  readonly #cards = new Map<string, CachedCard & { readonly expiry: Timer | undefined }>()
  readonly #loading = new Map<string, Promise<Card>>()
  #bytes = 0

  /** @param limit bytes of memory in all; the newest card stays in the cache even if it is larger */
  constructor(limit: number, clock: Clock = unrefClock) {
    this.#limit = limit
    this.#clock = clock
  }

  /**
   * The card of this digest, from the cache or from `load`. Concurrent requests of one account share one load. Accounts do not
   * share loads: a request would wait for a load that runs in another account's share of the event loop.
   */
  async get(account: number | null, digest: string, load: () => Promise<CachedCard>): Promise<Card> {
    const kept = this.#cards.get(digest)
    if (kept) {
      // The map's order is the order of use.
      this.#cards.delete(digest)
      this.#cards.set(digest, kept)
      kept.expiry?.refresh()
      return kept.card
    }
    const key = `${account}/${digest}`
    const underWay = this.#loading.get(key)
    if (underWay) return underWay
    const loading = load().then(({ card, bytes }) => this.add(digest, card, bytes))
    this.#loading.set(key, loading)
    try {
      return await loading
    } finally {
      this.#loading.delete(key)
    }
  }

  /** Adds a card that was read already. @returns the cached object of this digest: `card`, or an earlier one if there was one */
  add(digest: string, card: Card, bytes: number): Card {
    const kept = this.#cards.get(digest)
    if (kept) return kept.card
    const expiry = bytes > largeBytes ? this.#clock.setTimeout(() => this.#forget(digest), largeTtlMs) : undefined
    this.#cards.set(digest, { card, bytes, expiry })
    this.#bytes += bytes
    for (const oldest of this.#cards.keys()) {
      if (this.#bytes <= this.#limit || oldest === digest) break
      this.#forget(oldest)
    }
    return card
  }

  #forget(digest: string): void {
    const kept = this.#cards.get(digest)
    if (!kept) return
    this.#cards.delete(digest)
    this.#bytes -= kept.bytes
    kept.expiry?.close()
  }
}
