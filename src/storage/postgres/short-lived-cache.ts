import { maxAnswerBytes, memoryOfAnswer } from '../answer-memory.ts'

/** How long an answer is valid. A change by another replica is seen at most this time, plus the duration of a read, later. */
const lifetimeMs = 500

/** A cache for a database in which other replicas write too: an answer is valid for half a second. */
export class ShortLivedCache<T> {
  readonly #answers = new Map<string, { readonly answer: T; readonly until: number }>()
  #bytes = 0

  /** The cached answer to a question; undefined when no valid answer is cached. */
  get(question: string): T | undefined {
    const known = this.#answers.get(question)
    return known && known.until > performance.now() ? known.answer : undefined
  }

  /** Caches an answer, and returns it. A full cache is emptied first. */
  set(question: string, answer: T): T {
    if (this.#bytes >= maxAnswerBytes) this.forget()
    // A replaced answer still counts, so the cache is sometimes emptied too early.
    this.#bytes += memoryOfAnswer(question, answer)
    this.#answers.set(question, { answer, until: performance.now() + lifetimeMs })
    return answer
  }

  /** Empties the cache: its answers may be wrong now. */
  forget(): void {
    this.#answers.clear()
    this.#bytes = 0
  }
}
