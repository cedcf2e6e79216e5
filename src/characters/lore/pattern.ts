import type { RE2JS } from 're2js'

/*
 * RE2 makes a state for what it has met of a text, and keeps it for the next text: 8 MB for each pattern, in seconds for one that
 * is made for that. A card may have 500 patterns, and many cards are kept.
 */

/** Bytes of the states of a pattern while it is tried; beyond them RE2 goes on without states, in linear time as well. */
const mostStateBytes = 256 * 1024
/** Bytes of the states that a pattern keeps for the next text: those of an ordinary one. */
const keptStateBytes = 16 * 1024
/** Bytes of memory of a step of a program, about. */
const bytesOfStep = 200

/**
 * A regular expression of a card's author; it takes little memory, whatever it is tried on. What its program takes is there from its
 * first trial on: most cards that are read are only written, or shown.
 */
export class LorePattern {
  readonly #compile: () => RE2JS
  #compiled: RE2JS | undefined
  /** Steps of its program. */
  readonly size: number

  /** @throws what `compile` throws */
  constructor(compile: () => RE2JS) {
    this.#compile = compile
    this.size = compile().programSize()
  }

  /** Bytes of memory that it takes at most, about, while it is not tried. */
  get bytes(): number {
    return keptStateBytes + bytesOfStep * this.size
  }

  /** Whether it matches anywhere in a text. */
  test(text: string): boolean {
    this.#compiled ??= this.#bounded()
    const isFound = this.#compiled.test(text)
    const { dfa } = this.#compiled.re2()
    if (dfa.stateBudget - dfa.memBudget > keptStateBytes) dfa.clearCache()
    return isFound
  }

  #bounded(): RE2JS {
    const compiled = this.#compile()
    const { dfa } = compiled.re2()
    dfa.stateBudget = mostStateBytes
    dfa.memBudget = mostStateBytes
    return compiled
  }
}
