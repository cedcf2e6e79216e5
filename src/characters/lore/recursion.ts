import type { ScannedField } from './entry.ts'
import type { Haystack } from './haystack.ts'
import type { Lorebook } from './lorebook.ts'

/** What the books have in common that are scanned together: the lore that calls for lore, and how far it has come. */
export class Recursion {
  /** What lore of all passes says, and of the newest that said anything. */
  readonly texts: Haystack[] = []
  newest: readonly Haystack[] = []
  /** Texts of the card that were read. */
  readonly fields = new Map<ScannedField, readonly Haystack[]>()
  /** The levels of the recursion that entries wait for, ascending, with the pass in which each is reached. */
  readonly #levels = new Map<number, number>()

  /** The first level is reached with the first pass of the recursion, as in SillyTavern; the others when it would end. */
  constructor(books: readonly Pick<Lorebook, 'levels' | 'recursive'>[]) {
    const levels = books.flatMap((book) => (book.recursive ? book.levels : []))
    if (levels.length === 0) return
    for (const level of [...new Set(levels)].sort((a, b) => a - b)) {
      this.#levels.set(level, this.#levels.size === 0 ? 1 : Number.POSITIVE_INFINITY)
    }
  }

  /** The first pass in which an entry may match by its keys. @param level 0 for one that waits for nothing */
  firstPassOf(level: number): number {
    return level === 0 ? 0 : (this.#levels.get(level) ?? Number.POSITIVE_INFINITY)
  }

  /** Goes on to the next level that entries wait for; tells whether there is one. */
  nextLevel(pass: number): boolean {
    for (const [level, reached] of this.#levels) {
      if (reached <= pass + 1) continue
      this.#levels.set(level, pass + 1)
      return true
    }
    return false
  }

  /** Adds what lore of a pass says. */
  add(texts: readonly Haystack[]): void {
    this.newest = texts
    this.texts.push(...texts)
  }
}
