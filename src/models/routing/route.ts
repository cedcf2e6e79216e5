import { type ApiError, toApiError } from '../../errors.ts'
import { isLimitOfOneModel, isUnrelatedToModel } from '../faults.ts'
import type { ModelReply, ModelRequest } from '../model.ts'
import type { Candidate, OpenedStream } from './candidate.ts'

/** What one candidate would be asked; made anew for each, since each has its own context, defaults and id. */
export type RequestFor = (candidate: Candidate) => ModelRequest | Promise<ModelRequest>

/** Told of each candidate that failed where the next one is asked. */
export type ReportFailure = (candidate: Candidate, error: ApiError) => void

/** An answer, and which candidate gave it. */
export type Answered<T> = T & { readonly candidate: Candidate }

const ignoreFailure: ReportFailure = () => {}

/** Counts the requests that use the models of one `models.json`: after a reload, the old models are closed when the last of them has ended. */
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

  /** Resolves when there is none; nobody may enter after this. */
  async none(): Promise<void> {
    if (this.#count > 0) await new Promise<void>((resolve) => (this.#onNone = resolve))
  }
}

/** A model as requests name it: its candidates in the order in which they are tried. */
export class Route {
  readonly name: string
  readonly candidates: readonly Candidate[]
  readonly #inFlight: InFlightRequests

  constructor(name: string, candidates: readonly Candidate[], inFlight: InFlightRequests) {
    this.name = name
    this.candidates = candidates
    this.#inFlight = inFlight
  }

  /**
   * Does some work for which the candidates stay open, though other models may take their place meanwhile: where models are
   * read again, `complete` and `open` are part of such a work.
   */
  async use<T>(work: () => Promise<T>): Promise<T> {
    this.#inFlight.enter()
    try {
      return await work()
    } finally {
      this.#inFlight.leave()
    }
  }

  /**
   * The first candidate that can be asked for this at all.
   * @throws ApiError where none can
   */
  firstAble(requestFor: RequestFor, signal: AbortSignal): Promise<Candidate> {
    return this.#ask(signal, ignoreFailure, async (candidate) => {
      await requestFor(candidate)
      return candidate
    })
  }

  /** @throws ApiError as `open` does */
  complete(
    requestFor: RequestFor,
    signal: AbortSignal,
    reportFailure: ReportFailure = ignoreFailure,
  ): Promise<Answered<ModelReply & { readonly retries: number }>> {
    return this.#ask(signal, reportFailure, async (candidate, mayWait) => ({
      ...(await candidate.complete(await requestFor(candidate), signal, mayWait)),
      candidate,
    }))
  }

  /**
   * Resolves when the first event is there; nothing is tried elsewhere after that.
   * @throws ApiError of one that blames the caller, else of the last candidate that failed at what it can do, else of the last
   */
  open(
    requestFor: RequestFor,
    signal: AbortSignal,
    reportFailure: ReportFailure = ignoreFailure,
  ): Promise<Answered<OpenedStream>> {
    return this.#ask(signal, reportFailure, async (candidate, mayWait) => ({
      ...(await candidate.open(await requestFor(candidate), signal, mayWait)),
      candidate,
    }))
  }

  /** Asks one candidate after the other, until one answers; one waits for another request's try only where no later one can be asked. */
  async #ask<T>(
    signal: AbortSignal,
    reportFailure: ReportFailure,
    ask: (candidate: Candidate, mayWait: boolean) => Promise<T>,
  ): Promise<T> {
    let failure: unknown
    let limitation: unknown
    for (const [index, candidate] of this.candidates.entries()) {
      try {
        return await ask(candidate, this.#isLastAvailable(index))
      } catch (thrown) {
        const error = toApiError(thrown)
        // Nobody waits for another candidate's answer once the request has been given up.
        if (signal.aborted || isSameForEveryModel(error)) throw thrown
        if (isLimitOfOneModel(error)) limitation = thrown
        else failure = thrown
        if (index < this.candidates.length - 1) reportFailure(candidate, error)
      }
    }
    throw failure ?? limitation
  }

  /** Whether no candidate after this one can be asked. */
  #isLastAvailable(index: number): boolean {
    return this.candidates.every(({ isRefusing }, position) => position <= index || isRefusing)
  }
}

/** Whether any model would have failed in this way. */
function isSameForEveryModel(error: ApiError): boolean {
  return isUnrelatedToModel(error) && !isLimitOfOneModel(error)
}
