import { type Message, textOf } from '../../openai/completion-request.ts'
import { spend } from '../../work/fuel.ts'
import type { CardTexts, ExpansionContext } from './card-texts.ts'
import type { Section } from './composition.ts'
import { overheadOfName, overheadOfText } from './expanded-text-cache.ts'

/** A value made from a card's texts, and the unknown macros in them. */
interface Derived<T> {
  readonly made: T
  readonly unknown: ReadonlySet<string>
}

/** Units of work to make and cache a value, besides its texts. */
const unitsOfDerived = 100

/** The memory of a message or a section, in characters. */
export function lengthOf(value: Message | Section): number {
  return overheadOfText + ('role' in value ? textOf(value) : (value.text ?? '')).length
}

/** The memory of messages or sections, in characters. */
export function lengthOfAll(values: readonly (Message | Section)[]): number {
  return values.reduce((sum, value) => sum + lengthOf(value), 0)
}

/**
 * A cache of one kind of values that are made from the texts of a card for one user. If example dialogues were not cached, a
 * whole completion would cost 151 % more CPU time. If a card's messages were not cached, a whole completion would cost 5.8 % more
 * (docs/performance.md).
 */
export class DerivedCache<T> {
  readonly #maxEntries: number
  readonly #lengthOf: (value: T) => number
  readonly #maps = new WeakMap<CardTexts, Map<string | number, Derived<T>>>()

  /**
   * @param maxEntries the most values for one `CardTexts`; before one more value is cached, all its cached values are dropped
   * @param lengthOf the memory of a value in characters, which counts in the budget of the card
   */
  constructor(maxEntries: number, lengthOf: (value: T) => number) {
    this.#maxEntries = maxEntries
    this.#lengthOf = lengthOf
  }

  /** The cached value of a key; undefined for none. Adds the value's unknown macros to the context. */
  cached(owner: CardTexts, key: string | number, context: ExpansionContext): T | undefined {
    const known = this.#maps.get(owner)?.get(key)
    if (known !== undefined && known.unknown.size > 0) for (const name of known.unknown) context.unknown.add(name)
    return known?.made
  }

  /** The value of a key: from the cache, or newly made. It is cached unless its texts vary between requests. */
  derive(owner: CardTexts, key: string | number, context: ExpansionContext, make: () => T): T {
    const known = this.cached(owner, key, context)
    if (known !== undefined) return known
    const { varied, unknown: unknownBefore } = context
    spend(unitsOfDerived)
    context.varied = false
    context.unknown = new Set()
    const made = make()
    const { unknown } = context
    if (context.varied === false) this.#set(owner, key, { made, unknown })
    context.varied ||= varied
    context.unknown = unknownBefore
    for (const name of unknown) unknownBefore.add(name)
    return made
  }

  #set(owner: CardTexts, key: string | number, value: Derived<T>): void {
    const lengthOfKey = typeof key === 'string' ? key.length : 0
    if (!owner.spend(this.#lengthOf(value.made) + lengthOfKey + value.unknown.size * overheadOfName)) return
    const map = this.#maps.get(owner) ?? new Map<string | number, Derived<T>>()
    this.#maps.set(owner, map)
    if (map.size >= this.#maxEntries) map.clear()
    map.set(key, value)
  }
}
