import { ApiError, toApiError } from '../../errors.ts'
import { showsBrokenModel } from '../faults.ts'
import type { ModelEvent } from '../model.ts'
import { withModel } from '../reason.ts'
import type { Attempt } from './attempt.ts'
import type { Breaker } from './breaker.ts'
import type { Deadlines } from './deadlines.ts'

/** The deadlines of a stream, the parts that learn of its end, and the details for its errors. */
export interface StreamContext {
  readonly deadlines: Deadlines
  readonly attempt: Attempt
  /** Null for a model without a circuit breaker. */
  readonly breaker: Breaker | null
  /** Name and host of the model. */
  readonly traits: { readonly name: string; readonly host?: string }
}

type Step = IteratorResult<readonly ModelEvent[], undefined>

const ended: Step = { done: true, value: undefined }

/**
 * The events of a stream that has begun. The class restarts the idle deadline, and reports the end of the stream to the breaker
 * and the attempt. If the reader ends the stream, only the attempt gets a report. The class is not a generator, because one more
 * generator would make each event noticeably slower.
 */
export class OpenEvents implements AsyncIterableIterator<readonly ModelEvent[], undefined> {
  #first: readonly ModelEvent[] | undefined
  readonly #iterator: AsyncIterator<readonly ModelEvent[]>
  readonly #context: StreamContext
  #isOver = false

  /** @param first the events that have already come */
  constructor(first: readonly ModelEvent[], iterator: AsyncIterator<readonly ModelEvent[]>, context: StreamContext) {
    this.#first = first
    this.#iterator = iterator
    this.#context = context
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
    const { deadlines } = this.#context
    try {
      deadlines.resume()
      const step = await this.#iterator.next()
      if (!step.done) {
        // A slow reader must not count as a silent model.
        deadlines.isWaitingForReader = true
        return { done: false, value: step.value }
      }
      this.#succeed()
      return ended
    } catch (thrown) {
      throw this.#fail(toApiError(deadlines.signal.aborted ? deadlines.signal.reason : thrown))
    }
  }

  /** Stops the model, because the reader does not want the rest. */
  async return(): Promise<Step> {
    if (this.#isOver) return ended
    this.#isOver = true
    const { deadlines, attempt } = this.#context
    deadlines.end()
    attempt.ended(new ApiError(499, 'client_gone', 'The client does not want the rest of the answer.'))
    deadlines.abort()
    await this.#iterator.return?.()
    return ended
  }

  #succeed(): void {
    const { deadlines, attempt, breaker } = this.#context
    this.#isOver = true
    deadlines.end()
    breaker?.recordSuccess()
    attempt.ended()
  }

  #fail(thrown: ApiError): ApiError {
    const { deadlines, attempt, breaker, traits } = this.#context
    const error = withModel(thrown, traits)
    this.#isOver = true
    deadlines.end()
    // A model that stops or is silent in the middle of an answer counts as failed, like a model that never answered.
    if (showsBrokenModel(error)) breaker?.recordFailure()
    attempt.ended(error)
    return error
  }
}
