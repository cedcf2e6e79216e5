import { type Alarm, type Clock, quietClock } from '../../clock.ts'
import type { Card } from '../cards/card.ts'

/** A card that is kept, and what keeping it is taken to cost. */
interface KeptCard {
  readonly card: Card
  readonly bytes: number
}

/** Bytes of memory that an entry of a lorebook takes, and a key of one, about. */
const bytesOfEntry = 1000
const bytesOfKey = 500

/** Bytes of memory that make a card a large one. */
const large = 1024 ** 2
/** Milliseconds for which a large card that is not played is kept: it may be of a caller that wants only its memory. */
const largeKeptFor = 30_000

/** Bytes of memory that a card takes, about: its texts, and what its lore is read into. @param sourceBytes those of its file */
export function memoryOf({ book }: Card, sourceBytes: number): number {
  let bytes = 2 * sourceBytes
  for (const { keys, secondaryKeys } of book?.entries ?? []) {
    bytes += bytesOfEntry + bytesOfKey * (keys.length + secondaryKeys.length)
    for (const { pattern } of [...keys, ...secondaryKeys]) bytes += pattern?.bytes ?? 0
  }
  return bytes
}

/**
 * Keeps the cards that were played last, by the digest of their source: one object for each, since what is made of a
 * card, such as its prompt, is kept with the object.
 */
export class CardCache {
  readonly #limit: number
  readonly #clock: Clock
  readonly #cards = new Map<string, KeptCard & { readonly expiry: Alarm | undefined }>()
  readonly #loading = new Map<string, Promise<Card>>()
  #bytes = 0

  /** @param limit bytes of memory in all; the card that was used last is kept whatever its size */
  constructor(limit: number, clock: Clock = quietClock) {
    this.#limit = limit
    this.#clock = clock
  }

  /**
   * The card of this digest; where it is not kept, `load` makes it, once for all of one account who wait for it: accounts
   * do not wait for what is another's turn.
   */
  async get(account: number | null, digest: string, load: () => Promise<KeptCard>): Promise<Card> {
    const kept = this.#cards.get(digest)
    if (kept) {
      // Last in the map is what was used last.
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

  /** Keeps a card that has been read anyway; gives the one that is kept already, when there is one. */
  add(digest: string, card: Card, bytes: number): Card {
    const kept = this.#cards.get(digest)
    if (kept) return kept.card
    const expiry = bytes > large ? this.#clock.setTimeout(() => this.#forget(digest), largeKeptFor) : undefined
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
