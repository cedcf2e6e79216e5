import type { RE2JS } from 're2js'

/*
 * RE2JS tries a pattern on a whole text at once, which takes seconds for a long text and a pattern that is made for that. These trials go
 * through the text in steps, by the program and the states of RE2JS, and find the same.
 */

/** What is known after a step. */
export type Verdict = 'found' | 'not found' | 'not yet' | 'too many states'

/** A pattern on its way through a text. */
export interface Trial {
  /** Units of work of the newest step. */
  readonly units: number
  /** Goes some letters on, unless the end is reached or it is clear that the pattern matches. */
  step(): Verdict
}

/** Units of work after which a step ends. */
const unitsOfStep = 2000

/** The states of a pattern, as RE2JS keeps them. */
type States = ReturnType<RE2JS['re2']>['dfa']

interface State {
  /** Places in the program. */
  readonly nfaStates: { readonly length: number }
  readonly isMatch: boolean
  /** Which state follows, by the class of the next letter, as far as it is known. */
  readonly next: readonly (State | null)[] | null
}

/** Stands for the end of the text among its letters. */
const endOfText = -1
/** RE2JS's number for a match that may begin anywhere. */
const anywhere = 0
/** Letters for each state, without which it takes longer to make states than to go without them: as RE2JS has it. */
const lettersOfState = 10
/** Units of work of one place in the program, where a state is made. */
const unitsOfPlace = 10

/** A trial by states: an ordinary pattern has few, so that a letter is a look at a table. */
export class StateTrial implements Trial {
  units = 0
  readonly #states: States
  readonly #text: string
  #state: State | null
  #at = 0
  /** Where the states were last given up for new ones. */
  #clearedAt: number | undefined

  constructor(states: States, text: string) {
    this.#states = states
    this.#text = text
    this.#state = states.start({ context: () => beginsText | beginsLine }, 0)
  }

  step(): Verdict {
    const states = this.#states
    this.units = 0
    while (this.units < unitsOfStep) {
      this.#follow()
      const state = this.#state
      if (state === null) return 'too many states'
      const letter = this.#text.codePointAt(this.#at) ?? endOfText
      const letterClass = letter === endOfText ? states.numClasses : states.runeClass(letter)
      const next = state.next?.[letterClass] ?? this.#made(state, letterClass, letter)
      if (next?.isMatch) return 'found'
      if (next && letter === endOfText) return 'not found'
      this.#state = next
      this.#at += letter > 0xffff ? 2 : 1
      this.units += 1
    }
    return 'not yet'
  }

  /** Goes on as far as the states are known: nearly all letters are passed here. */
  #follow(): void {
    const states = this.#states
    const classes = states.latin1Class
    const text = this.#text
    const end = Math.min(text.length, this.#at + unitsOfStep)
    let at = this.#at
    let state = this.#state
    while (state !== null && state.next !== null && at < end) {
      let letter = text.charCodeAt(at)
      if (letter > 0xff) letter = text.codePointAt(at) ?? letter
      const letterClass = letter > 0xff ? states.runeClass(letter) : (classes[letter] ?? 0)
      const next: State | null = state.next[letterClass] ?? null
      if (next === null || next.isMatch) break
      state = next
      at += letter > 0xffff ? 2 : 1
    }
    this.units += at - this.#at
    this.#at = at
    this.#state = state
  }

  /** The state that follows a state and is not known yet; null where there is no sense in making it. */
  #made(from: State, letterClass: number, letter: number): State | null {
    const states = this.#states
    const at = this.#at
    let next: State | null = states.step(from, letterClass, letter, anywhere)
    if (next === null) {
      const isLost = this.#clearedAt !== undefined && at - this.#clearedAt < lettersOfState * states.stateCount
      const kept: State | null = isLost ? null : states.resetCache(from)
      this.#clearedAt = at
      next = kept && states.step(kept, letterClass, letter, anywhere)
    }
    this.units += unitsOfPlace * (from.nfaStates.length + (next?.nfaStates.length ?? 0)) + (states.numClasses >> 4)
    return next
  }
}

/** A step of a program, as RE2JS compiles it. */
interface Instruction {
  readonly op: number
  readonly out: number
  readonly arg: number
  matchRune(rune: number): boolean
}

/** A program, as RE2JS compiles it. */
export interface Program {
  readonly inst: readonly Instruction[]
  readonly start: number
}

/** RE2JS's numbers of what an instruction does; all from `letter` to `lastLetter` take a letter. */
const operation = {
  either: 1,
  lastEither: 2,
  capture: 3,
  condition: 4,
  match: 6,
  nothing: 7,
  letter: 8,
  lastLetter: 11,
}

/** RE2JS's bits of what is true between two letters. */
const beginsLine = 1
const endsLine = 2
const beginsText = 4
const endsText = 8
const isAtWord = 16
const isInWord = 32

/** Places of a program, each once. */
class Places {
  readonly #index: Int32Array
  readonly list: Int32Array
  size = 0

  constructor(count: number) {
    this.#index = new Int32Array(count)
    this.list = new Int32Array(count)
  }

  /** Whether a place is new. */
  add(place: number): boolean {
    const index = this.#index[place] ?? 0
    if (index < this.size && this.list[index] === place) return false
    this.#index[place] = this.size
    this.list[this.size++] = place
    return true
  }
}

/** A trial without states: each letter costs as many steps of the program as are alive. */
export class PlaceTrial implements Trial {
  units = 0
  readonly #program: Program
  readonly #text: string
  #at = 0
  /** The letter before the next one. */
  #before = endOfText
  /** Where the program is before the next letter, and after it. */
  #now: Places
  #next: Places
  readonly #open: number[] = []
  #isFound = false

  constructor(program: Program, text: string) {
    this.#program = program
    this.#text = text
    this.#now = new Places(program.inst.length)
    this.#next = new Places(program.inst.length)
  }

  step(): Verdict {
    this.units = 0
    while (this.units < unitsOfStep) {
      const letter = this.#text.codePointAt(this.#at) ?? endOfText
      // A match may begin at each letter.
      this.#enter(this.#now, this.#program.start, between(this.#before, letter))
      if (!this.#isFound && letter !== endOfText) this.#take(letter)
      if (this.#isFound) return 'found'
      if (letter === endOfText) return 'not found'
    }
    return 'not yet'
  }

  /** Goes on over a letter. */
  #take(letter: number): void {
    const { inst } = this.#program
    const now = this.#now
    const next = this.#next
    this.#at += letter > 0xffff ? 2 : 1
    const condition = between(letter, this.#text.codePointAt(this.#at) ?? endOfText)
    for (let index = 0; index < now.size; index++) {
      const instruction = inst[now.list[index] ?? 0]
      if (instruction && instruction.op >= operation.letter && instruction.matchRune(letter)) {
        this.#enter(next, instruction.out, condition)
      }
    }
    this.units += 1 + now.size
    now.size = 0
    this.#now = next
    this.#next = now
    this.#before = letter
  }

  /** Adds a place of the program, and those that it leads to without a letter. */
  #enter(places: Places, first: number, condition: number): void {
    const { inst } = this.#program
    const open = this.#open
    open.push(first)
    for (let place = open.pop(); place !== undefined; place = open.pop()) {
      const instruction = inst[place]
      if (!instruction || !places.add(place)) continue
      const { op, out, arg } = instruction
      this.units += 1
      if (op === operation.match) this.#isFound = true
      else if (op === operation.either || op === operation.lastEither) open.push(arg, out)
      else if (op === operation.capture || op === operation.nothing) open.push(out)
      else if (op === operation.condition && (arg & ~condition) === 0) open.push(out)
    }
  }
}

/** What is true between two letters. */
function between(before: number, after: number): number {
  return (
    (before === endOfText ? beginsText | beginsLine : 0) |
    (before === newLine ? beginsLine : 0) |
    (after === endOfText ? endsText | endsLine : 0) |
    (after === newLine ? endsLine : 0) |
    (isOfWord(before) === isOfWord(after) ? isInWord : isAtWord)
  )
}

const newLine = 10

/** Whether a letter is one of `\w`. */
function isOfWord(letter: number): boolean {
  return (
    (letter >= 97 && letter <= 122) || (letter >= 65 && letter <= 90) || (letter >= 48 && letter <= 57) || letter === 95
  )
}
