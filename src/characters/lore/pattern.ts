import type { RE2JS } from 're2js'
import { spend } from '../../work/fuel.ts'

/**
 * The most bytes of a pattern's DFA states. RE2JS makes these states while it searches a text, and keeps them for the next text.
 * When this memory is full, it drops all states. By default it would keep up to 8 MB for each pattern.
 */
const maxStateBytes = 64 * 1024
/** The approximate bytes of memory for one instruction. */
const bytesOfInstruction = 200

/**
 * A regular expression of a lorebook. The constructor compiles the pattern to check it and to learn its size, but does not keep
 * the program, since most cards are read only to be stored or shown. The first search compiles the pattern again.
 */
export class LorePattern {
  readonly #compile: () => RE2JS
  readonly #units: number
  #compiled: RE2JS | undefined
  /** The number of instructions of the compiled program. */
  readonly size: number

  /**
   * @param units the cost of `compile`, in units of work
   * @throws the errors of `compile`
   */
  constructor(compile: () => RE2JS, units = 0) {
    this.#compile = compile
    this.#units = units
    this.size = compile().programSize()
  }

  /** The approximate maximum of the memory between searches, in bytes. */
  get bytes(): number {
    return maxStateBytes + bytesOfInstruction * this.size
  }

  /** Whether the pattern matches anywhere in a text. Time is linear in the text, but some patterns take a microsecond a character. */
  search(text: string): boolean {
    this.#compiled ??= this.#compiledNow()
    spend(text.length * (1 + (this.size >> 6)))
    return this.#compiled.test(text)
  }

  #compiledNow(): RE2JS {
    spend(this.#units)
    const compiled = this.#compile()
    const { dfa } = compiled.re2()
    dfa.stateBudget = maxStateBytes
    dfa.memBudget = maxStateBytes
    // An upper bound of the work to find the DFA's classes of characters.
    spend(dfa.numClasses * this.size)
    return compiled
  }
}
