import type { OutsideChanges } from './outside-changes.ts'

/** How many answers are remembered at most. */
const most = 10_000

/** Answers of the database, remembered until anybody writes what they tell of: others by themselves, we by `forget`. */
export class Remembered<T> {
  readonly #changes: OutsideChanges
  readonly #answers = new Map<string, T>()
  #version: number | undefined

  constructor(changes: OutsideChanges) {
    this.#changes = changes
  }

  /** The answer to a question, if it is remembered. */
  get(question: string): T | undefined {
    const version = this.#changes.seen()
    if (version !== this.#version) this.forget()
    this.#version = version
    return this.#answers.get(question)
  }

  /** Remembers an answer, and gives it back. */
  set(question: string, answer: T): T {
    if (this.#answers.size >= most) this.forget()
    this.#answers.set(question, answer)
    return answer
  }

  /** What is remembered may no longer be so. */
  forget(): void {
    this.#answers.clear()
  }
}
