import type { ScannedField } from './entry.ts'
import type { Lorebook } from './lorebook.ts'
import type { ScannedText } from './scanned-text.ts'

/** The recursion of a scan, shared by all books: keys are searched for in the lore that earlier passes found. */
export class Recursion {
  /** The lore of all passes so far, and the lore of the newest pass that found lore. */
  readonly texts: ScannedText[] = []
  newest: readonly ScannedText[] = []
  /** Texts of the card, and the persona, in which some entries search for their keys too (`LoreEntry.alsoScans`). */
  readonly fields = new Map<ScannedField, readonly ScannedText[]>()
  /**
   * The recursion levels that entries wait for, ascending, each with the pass at which the level begins. The first level begins
   * at pass 1. The other levels have an infinite number until `nextLevel` sets the pass.
   */
  readonly #levels = new Map<number, number>()

  /**
   * Sorts the levels of all books with recursion. As in SillyTavern, the first pass of the recursion begins the first level. Each
   * further level begins after a pass that found no lore to search, because the recursion would end otherwise.
   */
  constructor(books: readonly Pick<Lorebook, 'levels' | 'recursive'>[]) {
    const levels = books.flatMap((book) => (book.recursive ? book.levels : []))
    if (levels.length === 0) return
    for (const level of [...new Set(levels)].sort((a, b) => a - b)) {
      this.#levels.set(level, this.#levels.size === 0 ? 1 : Number.POSITIVE_INFINITY)
    }
  }

  /** The first pass in which an entry may match by its keys. @param level 0 for an entry that does not wait */
  firstPassOf(level: number): number {
    return level === 0 ? 0 : (this.#levels.get(level) ?? Number.POSITIVE_INFINITY)
  }

  /** Begins the next level that entries wait for. @returns false if all levels have begun */
  nextLevel(pass: number): boolean {
    for (const [level, reached] of this.#levels) {
      if (reached <= pass + 1) continue
      this.#levels.set(level, pass + 1)
      return true
    }
    return false
  }

  /** Adds the lore of a pass. */
  add(texts: readonly ScannedText[]): void {
    this.newest = texts
    this.texts.push(...texts)
  }
}
