/** Milliseconds: what another replica changes is known here so much later at most. */
const keptFor = 500
/** How many answers are remembered at most. */
const most = 10_000

/** Answers of a database in which others write too, remembered for half a second. */
export class RememberedShortly<T> {
  readonly #answers = new Map<string, { readonly answer: T; readonly until: number }>()

  /** The answer to a question, if it is remembered. */
  get(question: string): T | undefined {
    const known = this.#answers.get(question)
    return known && known.until > performance.now() ? known.answer : undefined
  }

  /** Remembers an answer, and gives it back. */
  set(question: string, answer: T): T {
    if (this.#answers.size >= most) this.forget()
    this.#answers.set(question, { answer, until: performance.now() + keptFor })
    return answer
  }

  /** What is remembered may no longer be so. */
  forget(): void {
    this.#answers.clear()
  }
}
