import type { RE2JS } from 're2js'
import type { Steps } from '../../work.ts'
import { DfaRun, NfaRun, type PatternRun, type Program } from './pattern-runs.ts'

/*
 * RE2 makes DFA states while it reads a text, and keeps them for the next text: 8 MB for each pattern, within seconds for a malicious
 * one. A card may have 500 patterns, and many cards are cached.
 */

/** Bytes of a pattern's states during a search; beyond them the NFA searches, without states and in linear time as well. */
const maxStateBytes = 256 * 1024
/** Bytes of states that a pattern keeps for the next text: enough for an ordinary pattern. */
const keptStateBytes = 16 * 1024
/** Bytes of memory of one instruction, about. */
const bytesOfInstruction = 200

/** The one pattern that may have more than its kept states: a search that stops halfway leaves its states behind. */
let largest: LorePattern | undefined

/**
 * A regular expression of a card's author, with bounded memory for any text. It compiles its program at its first search, since most
 * cards that are read are only stored or shown.
 */
export class LorePattern {
  readonly #compile: () => RE2JS
  readonly #units: number
  #compiled: RE2JS | undefined
  /** Instructions of its program. */
  readonly size: number

  /**
   * @param units the cost of `compile`, in units of work
   * @throws what `compile` throws
   */
  constructor(compile: () => RE2JS, units = 0) {
    this.#compile = compile
    this.#units = units
    this.size = compile().programSize()
  }

  /** Bytes of memory at most, about, between searches. */
  get bytes(): number {
    return keptStateBytes + bytesOfInstruction * this.size
  }

  /** Whether the pattern matches anywhere in a text. */
  *search(text: string): Steps<boolean> {
    if (!this.#compiled) {
      this.#compiled = this.#bounded()
      // The DFA looks at each class of characters for each instruction.
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

  /** Takes the steps of a run. @returns undefined when the run needs too many states */
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

  /** Whether the pattern has more states than it may keep. */
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

/** RE2JS's prefilter: the strings that a text must contain for a pattern to match. */
interface Required {
  eval(text: RequiredText, from: number): boolean
}

/** The text as the prefilter reads it. */
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
