import type { RE2JS } from 're2js'
import type { Steps } from '../../work.ts'
import { PlaceTrial, type Program, StateTrial, type Trial } from './pattern-trials.ts'

/*
 * RE2 makes a state for what it has met of a text, and keeps it for the next text: 8 MB for each pattern, in seconds for one that
 * is made for that. A card may have 500 patterns, and many cards are kept.
 */

/** Bytes of the states of a pattern while it is tried; beyond them it is tried without states, in linear time as well. */
const maxStateBytes = 256 * 1024
/** Bytes of the states that a pattern keeps for the next text: those of an ordinary one. */
const keptStateBytes = 16 * 1024
/** Bytes of memory of a step of a program, about. */
const bytesOfStep = 200

/** The one pattern that may have more states than it keeps: a trial that ends halfway leaves its states behind. */
let largest: LorePattern | undefined

/**
 * A regular expression of a card's author; it takes little memory, whatever it is tried on. What its program takes is there from its
 * first trial on: most cards that are read are only written, or shown.
 */
export class LorePattern {
  readonly #compile: () => RE2JS
  readonly #units: number
  #compiled: RE2JS | undefined
  /** Steps of its program. */
  readonly size: number

  /**
   * @param units what `compile` takes, in units of work
   * @throws what `compile` throws
   */
  constructor(compile: () => RE2JS, units = 0) {
    this.#compile = compile
    this.#units = units
    this.size = compile().programSize()
  }

  /** Bytes of memory that it takes at most, about, while it is not tried. */
  get bytes(): number {
    return keptStateBytes + bytesOfStep * this.size
  }

  /** Looks whether it matches anywhere in a text. */
  *search(text: string): Steps<boolean> {
    if (!this.#compiled) {
      this.#compiled = this.#bounded()
      // Its states look at each class of letters for each step.
      yield this.#units + this.#compiled.re2().dfa.numClasses * this.size
    }
    const re2 = this.#compiled.re2()
    const required: Required | null = re2.prefilter
    if (required) {
      yield text.length * (1 + (this.size >> 6))
      if (!required.eval(new RequiredText(text), 0)) return false
    }
    if (re2.prefixComplete) return this.#compiled.test(text)
    const found = yield* this.#steps(new StateTrial(re2.dfa, text))
    this.#forgetStates()
    if (found !== undefined) return found
    const program: Program = re2.prog
    return (yield* this.#steps(new PlaceTrial(program, text))) === true
  }

  /** Takes the steps of a trial. @returns undefined where it takes too many states */
  *#steps(trial: Trial): Steps<boolean | undefined> {
    for (;;) {
      const verdict = trial.step()
      if (verdict === 'not yet' && largest !== this && this.#hasMany) {
        if (largest) largest.#forgetStates()
        largest = this
      }
      yield trial.units
      if (verdict === 'too many states') return undefined
      if (verdict !== 'not yet') return verdict === 'found'
    }
  }

  /** Whether it has more states than it keeps. */
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

/** What RE2JS knows that a text must have for a pattern to match. */
interface Required {
  eval(text: RequiredText, from: number): boolean
}

/** A text in which RE2JS looks for that. */
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
