import type { RE2JS } from 're2js'

/*
 * RE2JS searches a whole text in one call. For a long text and a malicious pattern, the call takes seconds. The runs in this file
 * also use the program (NFA) and the lazy DFA of RE2JS, and have the same results, but they search the text in steps.
 */

/** The result of a step. After `too many states`, only an NFA run can decide. */
export type Verdict = 'found' | 'not found' | 'not yet' | 'too many states'

/** A search for a pattern in a text, in steps. */
export interface PatternRun {
  /** Units of work of the newest step. */
  readonly units: number
  /** Reads more characters, until the step has spent its units, the text ends, or a match is found. */
  step(): Verdict
}

/** Units of work after which a step ends. */
const unitsOfStep = 2000

/** The DFA of a pattern in RE2JS, which makes its states when it needs them. */
type States = ReturnType<RE2JS['re2']>['dfa']

interface State {
  /** The states of the NFA, which are indexes of the program's instructions. */
  readonly nfaStates: { readonly length: number }
  readonly isMatch: boolean
  /** The next state by the class of the next character; null if that state is not made yet. */
  readonly next: readonly (State | null)[] | null
}

/** Stands in place of a character before the beginning and after the end of the text. */
const endOfText = -1
/** RE2JS's number for a search whose match may begin anywhere. */
const unanchored = 0
/**
 * After the DFA has dropped its states, it must read this many characters for each new state before it may drop the states again.
 * With fewer characters, making the states takes longer than an NFA run. RE2JS uses the same number.
 */
const charactersPerState = 10
/** Units of work to make a DFA state from the one before it, for each NFA state in these two DFA states. */
const unitsOfInstruction = 10

/** A run of the DFA. An ordinary pattern has few states, so almost every character costs only one table lookup. */
export class DfaRun implements PatternRun {
  units = 0
  readonly #states: States
  readonly #text: string
  #state: State | null
  #at = 0
  /** The index in the text at which the DFA last dropped its states. */
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
      const character = this.#text.codePointAt(this.#at) ?? endOfText
      const characterClass = character === endOfText ? states.numClasses : states.runeClass(character)
      const next = state.next?.[characterClass] ?? this.#makeNext(state, characterClass, character)
      if (next?.isMatch) return 'found'
      if (next && character === endOfText) return 'not found'
      this.#state = next
      this.#at += character > 0xffff ? 2 : 1
      this.units += 1
    }
    return 'not yet'
  }

  /** Reads characters as long as the next state exists already. This is the fast path for nearly all characters. */
  #follow(): void {
    const states = this.#states
    const classes = states.latin1Class
    const text = this.#text
    const end = Math.min(text.length, this.#at + unitsOfStep)
    let at = this.#at
    let state = this.#state
    while (state !== null && state.next !== null && at < end) {
      let character = text.charCodeAt(at)
      if (character > 0xff) character = text.codePointAt(at) ?? character
      const characterClass = character > 0xff ? states.runeClass(character) : (classes[character] ?? 0)
      const next: State | null = state.next[characterClass] ?? null
      if (next === null || next.isMatch) break
      state = next
      at += character > 0xffff ? 2 : 1
    }
    this.units += at - this.#at
    this.#at = at
    this.#state = state
  }

  /**
   * Makes the next state. If the memory for states is full, all states except `from` are dropped first.
   * @returns null if the DFA has read too few characters since it last dropped its states (`charactersPerState`)
   */
  #makeNext(from: State, characterClass: number, character: number): State | null {
    const states = this.#states
    const at = this.#at
    let next: State | null = states.step(from, characterClass, character, unanchored)
    if (next === null) {
      const isLost = this.#clearedAt !== undefined && at - this.#clearedAt < charactersPerState * states.stateCount
      const kept: State | null = isLost ? null : states.resetCache(from)
      this.#clearedAt = at
      next = kept && states.step(kept, characterClass, character, unanchored)
    }
    this.units +=
      unitsOfInstruction * (from.nfaStates.length + (next?.nfaStates.length ?? 0)) + (states.numClasses >> 4)
    return next
  }
}

/** An instruction of a program, as RE2JS compiles it. */
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

/** RE2JS's codes of operations. All operations from `character` to `lastCharacter` consume a character. */
const operation = {
  either: 1,
  lastEither: 2,
  capture: 3,
  condition: 4,
  match: 6,
  nothing: 7,
  character: 8,
  lastCharacter: 11,
}

/** RE2JS's bits for the conditions between two characters (`^`, `$`, `\b` and so on). */
const beginsLine = 1
const endsLine = 2
const beginsText = 4
const endsText = 8
const isAtWord = 16
const isInWord = 32

/** A set of instruction indexes. It is a sparse set: adding, looking up and clearing take constant time. */
class InstructionSet {
  readonly #positions: Int32Array
  readonly list: Int32Array
  size = 0

  constructor(count: number) {
    this.#positions = new Int32Array(count)
    this.list = new Int32Array(count)
  }

  /** Adds an index. @returns whether it is new */
  add(index: number): boolean {
    const position = this.#positions[index] ?? 0
    if (position < this.size && this.list[position] === index) return false
    this.#positions[index] = this.size
    this.list[this.size++] = index
    return true
  }
}

/** A run of the NFA, which stores no DFA states. Each character costs work for each active instruction. */
export class NfaRun implements PatternRun {
  units = 0
  readonly #program: Program
  readonly #text: string
  #at = 0
  /** The character that was read last. */
  #before = endOfText
  /** The active instructions before the next character, and after it. */
  #now: InstructionSet
  #next: InstructionSet
  readonly #open: number[] = []
  #isFound = false

  constructor(program: Program, text: string) {
    this.#program = program
    this.#text = text
    this.#now = new InstructionSet(program.inst.length)
    this.#next = new InstructionSet(program.inst.length)
  }

  step(): Verdict {
    this.units = 0
    while (this.units < unitsOfStep) {
      const character = this.#text.codePointAt(this.#at) ?? endOfText
      // A match may begin at each character, so the first instruction is always active.
      this.#activate(this.#now, this.#program.start, between(this.#before, character))
      if (!this.#isFound && character !== endOfText) this.#consume(character)
      if (this.#isFound) return 'found'
      if (character === endOfText) return 'not found'
    }
    return 'not yet'
  }

  /** Reads a character: each active instruction that matches it activates the instruction after it. */
  #consume(character: number): void {
    const { inst } = this.#program
    const now = this.#now
    const next = this.#next
    this.#at += character > 0xffff ? 2 : 1
    const condition = between(character, this.#text.codePointAt(this.#at) ?? endOfText)
    for (let index = 0; index < now.size; index++) {
      const instruction = inst[now.list[index] ?? 0]
      if (instruction && instruction.op >= operation.character && instruction.matchRune(character)) {
        this.#activate(next, instruction.out, condition)
      }
    }
    this.units += 1 + now.size
    now.size = 0
    this.#now = next
    this.#next = now
    this.#before = character
  }

  /** Adds an instruction, and all instructions that can be reached from it without reading a character. */
  #activate(set: InstructionSet, first: number, condition: number): void {
    const { inst } = this.#program
    const open = this.#open
    open.push(first)
    for (let index = open.pop(); index !== undefined; index = open.pop()) {
      const instruction = inst[index]
      if (!instruction || !set.add(index)) continue
      const { op, out, arg } = instruction
      this.units += 1
      if (op === operation.match) this.#isFound = true
      else if (op === operation.either || op === operation.lastEither) open.push(arg, out)
      else if (op === operation.capture || op === operation.nothing) open.push(out)
      else if (op === operation.condition && (arg & ~condition) === 0) open.push(out)
    }
  }
}

/** The bits of the conditions that are true between two characters. */
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

/** Whether a character is one of `\w`. */
function isOfWord(character: number): boolean {
  return (
    (character >= 97 && character <= 122) ||
    (character >= 65 && character <= 90) ||
    (character >= 48 && character <= 57) ||
    character === 95
  )
}
