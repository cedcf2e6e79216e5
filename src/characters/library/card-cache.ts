import type { Card } from '../cards/card.ts'

/** A card that is kept, and what keeping it is taken to cost. */
interface KeptCard {
  readonly card: Card
  readonly bytes: number
}

/**
 * Keeps the cards that were played last, by the digest of their source: one object for each, since what is made of a
 * card, such as its prompt, is kept with the object.
 */
export class CardCache {
  readonly #limit: number
  readonly #cards = new Map<string, KeptCard>()
  readonly #loading = new Map<string, Promise<Card>>()
  #bytes = 0

  /** @param limit bytes of source in all; the card that was used last is kept whatever its size */
  constructor(limit: number) {
    this.#limit = limit
  }

  /** The card of this digest; where it is not kept, `load` makes it, once for all who wait for it. */
  async get(digest: string, load: () => Promise<KeptCard>): Promise<Card> {
    const kept = this.#cards.get(digest)
    if (kept) {
      // Last in the map is what was used last.
      this.#cards.delete(digest)
      this.#cards.set(digest, kept)
      return kept.card
    }
    const underWay = this.#loading.get(digest)
    if (underWay) return underWay
    const loading = load().then(({ card, bytes }) => this.add(digest, card, bytes))
    this.#loading.set(digest, loading)
    try {
      return await loading
    } finally {
      this.#loading.delete(digest)
    }
  }

  /** Keeps a card that has been read anyway; gives the one that is kept already, when there is one. */
  add(digest: string, card: Card, bytes: number): Card {
    const kept = this.#cards.get(digest)
    if (kept) return kept.card
    this.#cards.set(digest, { card, bytes })
    this.#bytes += bytes
    for (const [oldest, { bytes: freed }] of this.#cards) {
      if (this.#bytes <= this.#limit || oldest === digest) break
      this.#cards.delete(oldest)
      this.#bytes -= freed
    }
    return card
  }
}
