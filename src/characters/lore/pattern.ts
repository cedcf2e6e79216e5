import type { RE2JS } from 're2js'
import type { Steps } from '../../work.ts'
import { DfaRun, NfaRun, type PatternRun, type Program } from './pattern-runs.ts'

/*
 * RE2JS makes DFA states while it searches a text, and keeps the states for the next text. The states of a pattern take up to
 * 8 MB, and a malicious pattern reaches this size within seconds. A card may have 500 patterns, and many cards are cached, so
 * this file limits the memory of the states.
 */

/**
 * The most bytes of a pattern's DFA states during a search. When this memory is full, the DFA drops all states. If that happens
 * too often, the NFA searches instead, which takes linear time too and stores no states.
 */
const maxStateBytes = 256 * 1024
/** The most bytes of DFA states that a pattern keeps for its next search: enough for an ordinary pattern. */
const keptStateBytes = 16 * 1024
/** The approximate bytes of memory for one instruction. */
const bytesOfInstruction = 200

/**
 * The only pattern that has more than `keptStateBytes` of DFA states; undefined if no pattern has so many. A search that is
 * aborted does not drop the states of its pattern. When another pattern exceeds `keptStateBytes`, the states of this pattern are
 * dropped.
 */
let largest: LorePattern | undefined

/**
 * A regular expression of a lorebook. Its memory is bounded for any text. The constructor compiles the pattern to check it and to
 * learn its size, but does not keep the program, since most cards are read only to be stored or shown. The first search compiles
 * the pattern again.
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
    return keptStateBytes + bytesOfInstruction * this.size
  }

  /** Whether the pattern matches anywhere in a text. */
  *search(text: string): Steps<boolean> {
    if (!this.#compiled) {
      this.#compiled = this.#bounded()
      // The second term is an upper bound of the work to find the DFA's classes of characters.
      yield this.#units + this.#compiled.re2().dfa.numClasses * this.size
    }
    const re2 = this.#compiled.re2()
    const required: Required | null = re2.prefilter
    if (required) {
      yield text.length * (1 + (this.size >> 6))
      if (!required.eval(new RequiredText(text), 0)) return false
    }
    if (re2.prefixComplete) return this.#compiled.test(text)
    const found = yield* this.#finish(new DfaRun(re2.dfa, text))
    this.#forgetStates()
    if (found !== undefined) return found
    const program: Program = re2.prog
    return (yield* this.#finish(new NfaRun(program, text))) === true
  }

  /** Takes the steps of a run. @returns undefined if the run needs too many DFA states */
  *#finish(run: PatternRun): Steps<boolean | undefined> {
    for (;;) {
      const verdict = run.step()
      if (verdict === 'not yet' && largest !== this && this.#hasMany) {
        if (largest) largest.#forgetStates()
        largest = this
      }
      yield run.units
      if (verdict === 'too many states') return undefined
      if (verdict !== 'not yet') return verdict === 'found'
    }
  }

  /** Whether the pattern has more DFA states than it may keep for its next search. */
  get #hasMany(): boolean {
    const dfa = this.#compiled?.re2().dfa
    return dfa !== undefined && dfa.stateBudget - dfa.memBudget > keptStateBytes
  }

  #forgetStates(): void {
    if (this.#hasMany) this.#compiled?.re2().dfa.clearCache()
    if (largest === this) largest = undefined
  }

  #bounded(): RE2JS {
    const compiled = this.#compile()
    const { dfa } = compiled.re2()
    dfa.stateBudget = maxStateBytes
    dfa.memBudget = maxStateBytes
    return compiled
  }
}

/** RE2JS's prefilter of a pattern: the strings that a text must contain if the pattern matches. */
interface Required {
  eval(text: RequiredText, from: number): boolean
}

/** A text with the methods that the prefilter calls. */
class RequiredText {
  readonly #text: string

  constructor(text: string) {
    this.#text = text
  }

  hasString({ str }: { readonly str: string }, from: number): boolean {
    return this.#text.includes(str, from)
  }

  hasAnyString(strings: { automaton16(): Automaton }, from: number): boolean {
    return strings.automaton16().searchUTF16(this.#text, from, this.#text.length)
  }
}

interface Automaton {
  searchUTF16(text: string, from: number, to: number): boolean
}
