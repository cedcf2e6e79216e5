import { bufferOf } from '../../bytes.ts'
import { maxUnits, withFuel } from '../../work/fuel.ts'
import { cachedInThread } from '../../work/thread-cache.ts'
import { readJsonDocument } from '../documents/json-document.ts'
import { memoryOfBook } from '../lore/kept-book.ts'
import { type Card, readCard } from './card.ts'

/** A card as plain data, for any thread. */
export interface KeptCard {
  /** SHA-256 of the source, 64 hex digits. */
  readonly digest: string
  /** The card's JSON document, in shared memory. */
  readonly document: Uint8Array
  /** Whether it is parsed and composed only in workers: over 128 KiB of JSON, or slow to read, or with patterns. */
  readonly isHeavy: boolean
  /** The id of the model that the card asks for. */
  readonly model?: string
}

/**
 * The parsed card. Each thread keeps the cards that it has parsed last, bounded by their bytes. A kept card is always the same
 * object, because other caches use it as the key. Reading has a budget of its own, so that it costs a request the same whether the
 * card is kept or not.
 * @throws CardError never for a card that was read before
 */
export function cardOf({ digest, document }: KeptCard): Card {
  const read = () => withFuel(maxUnits, () => readCard(readJsonDocument(bufferOf(document))))
  return cachedInThread('card', digest, read, (card) => memoryOf(card, document.length))
}

/**
 * Estimated bytes of memory for each byte of a card's JSON. A text with a letter outside Latin-1 takes two bytes for each
 * character. Short strings are views of the whole JSON, which therefore stays in memory, and long strings are copies.
 */
const bytesOfJsonByte = 4
/** Estimated bytes of memory of a greeting, besides its characters. */
const bytesOfGreeting = 60

/** Estimates the bytes of memory of a card: its texts and its parsed lore. @param documentBytes the bytes of the card's JSON */
export function memoryOf({ greetings, book }: Card, documentBytes: number): number {
  return bytesOfJsonByte * documentBytes + bytesOfGreeting * greetings.length + (book ? memoryOfBook(book) : 0)
}
