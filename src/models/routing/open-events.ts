import type { ModelEvent } from '../model.ts'
import type { RunningAttempt } from './attempt.ts'

type Step = IteratorResult<readonly ModelEvent[], undefined>

const ended: Step = { done: true, value: undefined }

/**
 * The events of a stream that has begun. The class restarts the idle deadline, and reports the end of the attempt. It is not a
 * generator, because one more generator would make each event noticeably slower.
 */
export class OpenEvents implements AsyncIterableIterator<readonly ModelEvent[], undefined> {
  #first: readonly ModelEvent[] | undefined
  readonly #iterator: AsyncIterator<readonly ModelEvent[]>
  readonly #attempt: RunningAttempt
  #isOver = false

  /** @param first the events that have already come */
  constructor(first: readonly ModelEvent[], iterator: AsyncIterator<readonly ModelEvent[]>, attempt: RunningAttempt) {
    this.#first = first
    this.#iterator = iterator
    this.#attempt = attempt
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  /** @throws ApiError that ends the stream */
  async next(): Promise<Step> {
    const first = this.#first
    if (first) {
      this.#first = undefined
      return { done: false, value: first }
    }
    if (this.#isOver) return ended
    const { deadlines } = this.#attempt
    try {
      deadlines.resume()
      const step = await this.#iterator.next()
      if (!step.done) {
        // A slow reader must not count as a silent model.
        deadlines.isWaitingForReader = true
        return step
      }
      this.#isOver = true
      this.#attempt.succeed()
      return ended
    } catch (thrown) {
      this.#isOver = true
      throw this.#attempt.fail(thrown)
    }
  }

  /** Stops the model, because the reader does not want the rest. */
  async return(): Promise<Step> {
    if (this.#isOver) return ended
    this.#isOver = true
    this.#attempt.giveUp()
    await this.#iterator.return?.()
    return ended
  }
}
