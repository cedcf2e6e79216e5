import { type ApiError, toApiError } from '../../errors.ts'
import { isLimitOfOneModel, isUnrelatedToModel } from '../faults.ts'
import type { ModelReply, ModelRequest } from '../model.ts'
import type { Candidate, OpenedStream } from './candidate.ts'

/**
 * Makes the request for one candidate. Each candidate needs a different request, for its context window, defaults and model id.
 */
export type RequestFor = (candidate: Candidate) => ModelRequest | Promise<ModelRequest>

/** Called when a candidate has failed, before the next candidate is asked. */
export type ReportFailure = (candidate: Candidate, error: ApiError) => void

/** How the candidates of a route are asked. */
export interface Asking {
  readonly requestFor: RequestFor
  readonly signal: AbortSignal
  /** Called once, before the first candidate for which a request can be made is asked. An error ends the request. */
  readonly enter?: (candidate: Candidate) => Promise<void> | undefined
  readonly reportFailure?: ReportFailure
}

/** An answer, with the candidate that gave it. */
export type Answered<T> = T & { readonly candidate: Candidate }

/**
 * Counts the requests that use the models of one version of `models.json`. After a reload, the old models are closed when no
 * request uses them.
 */
export class InFlightRequests {
  #count = 0
  #onNone: (() => void) | undefined

  enter(): void {
    this.#count++
  }

  leave(): void {
    this.#count--
    if (this.#count === 0) this.#onNone?.()
  }

  /** Resolves when no request is in flight. No request may enter after this call. */
  async untilNone(): Promise<void> {
    if (this.#count > 0) await new Promise<void>((resolve) => (this.#onNone = resolve))
  }
}

/** The candidates for the model id of a request, in the order in which they are asked. */
export class Route {
  readonly name: string
  readonly candidates: readonly Candidate[]
  readonly #inFlight: InFlightRequests

  constructor(name: string, candidates: readonly Candidate[], inFlight: InFlightRequests) {
    this.name = name
    this.candidates = candidates
    this.#inFlight = inFlight
  }

  /** Keeps the candidates open until `leave`, even if a reload replaces them. */
  enter(): void {
    this.#inFlight.enter()
  }

  /** Ends a use that `enter` began. No candidate may be asked, and no stream read, after the last use. */
  leave(): void {
    this.#inFlight.leave()
  }

  /**
   * Finds the first candidate for which a request can be made.
   * @throws ApiError if there is no such candidate. If candidates fail in different ways, `open` describes which error is thrown
   */
  async findFirstUsable(asking: Asking): Promise<Candidate> {
    return (await this.#ask(asking, () => ({}))).candidate
  }

  /** @throws ApiError as `open` does */
  complete(asking: Asking): Promise<Answered<ModelReply & { readonly retries: number }>> {
    return this.#ask(asking, (candidate, request, mayWait) => candidate.complete(request, asking.signal, mayWait))
  }

  /**
   * Resolves when the first event has come. After the first event, no other candidate is asked.
   * @throws ApiError at the first failure that every model would have, and every error of `enter`. After the signal has aborted:
   * the next failure, or the signal's reason. If all candidates fail: the last failure that is not a limit of one model, or, if
   * all failures are such limits, the last one
   */
  open(asking: Asking): Promise<Answered<OpenedStream>> {
    return this.#ask(asking, (candidate, request, mayWait) => candidate.open(request, asking.signal, mayWait))
  }

  /**
   * Asks the candidates in order until one answers. If no later candidate would admit the request, a candidate may wait for the
   * probe of another request.
   */
  async #ask<T extends object>(
    { requestFor, signal, enter, reportFailure }: Asking,
    ask: (candidate: Candidate, request: ModelRequest, mayWait: boolean) => T | Promise<T>,
  ): Promise<Answered<T>> {
    let failure: unknown
    let entry = enter
    let isEntering = false
    for (const [index, candidate] of this.candidates.entries()) {
      try {
        const made = requestFor(candidate)
        const request = made instanceof Promise ? await made : made
        isEntering = true
        const entering = entry?.(candidate)
        if (entering) await entering
        isEntering = false
        entry = undefined
        return { ...(await ask(candidate, request, this.#isLastAvailable(index))), candidate }
      } catch (thrown) {
        const error = toApiError(thrown)
        // An aborted request needs no answer from another candidate.
        if (isEntering || signal.aborted || isSameForEveryModel(error)) throw thrown
        failure = graver(failure, thrown)
        if (index < this.candidates.length - 1) reportFailure?.(candidate, error)
      }
    }
    throw failure
  }

  /** Whether no candidate after this one would admit a request. */
  #isLastAvailable(index: number): boolean {
    return this.candidates.every(({ isRefusing }, position) => position <= index || isRefusing)
  }
}

/** The failure to throw, if no candidate answers: the last one, but a limit of one model only if there is nothing else. */
function graver(before: unknown, last: unknown): unknown {
  const isLimit = isLimitOfOneModel(toApiError(last))
  return isLimit && before !== undefined && !isLimitOfOneModel(toApiError(before)) ? before : last
}

/** Whether every model would fail in this way. */
function isSameForEveryModel(error: ApiError): boolean {
  return isUnrelatedToModel(error) && !isLimitOfOneModel(error)
}
