import { maxAnswerBytes, memoryOfAnswer } from './answer-memory.ts'
import type { OutsideChanges } from './outside-changes.ts'

/**
 * A cache of answers of the database. A write by another connection empties the cache. After its own writes, this process calls
 * `forget`. Without such a cache for shares, a cached page of plants costs 46 % more CPU time (docs/performance.md).
 */
export class VersionedCache<T> {
  readonly #changes: OutsideChanges
  readonly #answers = new Map<string, T>()
  #bytes = 0
  #version: number | undefined

  constructor(changes: OutsideChanges) {
    this.#changes = changes
  }

  /** The cached answer to a question; undefined when no valid answer is cached. */
  get(question: string): T | undefined {
    const version = this.#changes.version()
    if (version !== this.#version) this.forget()
    this.#version = version
    return this.#answers.get(question)
  }

  /** Caches an answer, and returns it. A full cache is emptied first. */
  set(question: string, answer: T): T {
    if (this.#bytes >= maxAnswerBytes) this.forget()
    this.#bytes += memoryOfAnswer(question, answer)
    this.#answers.set(question, answer)
    return answer
  }

  /** Empties the cache: its answers may be wrong now. */
  forget(): void {
    this.#answers.clear()
    this.#bytes = 0
  }
}
