import { toApiError } from '../../errors.ts'
import { saysNothingOfModel } from '../faults.ts'
import type { ModelReply, ModelRequest } from '../model.ts'
import type { Candidate, OpenedStream } from './candidate.ts'

/** What one candidate would be asked; made anew for each, since each has its own context, defaults and id. */
export type RequestFor = (candidate: Candidate) => ModelRequest | Promise<ModelRequest>

/** An answer, and which candidate gave it. */
export type Answered<T> = T & { readonly candidate: Candidate }

/** How many requests still look for an answer: what they may ask stays open until none does. */
export class Seekers {
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
  readonly #seekers: Seekers

  constructor(name: string, candidates: readonly Candidate[], seekers: Seekers) {
    this.name = name
    this.candidates = candidates
    this.#seekers = seekers
  }

  /** The candidate that is asked first. */
  get first(): Candidate {
    const [first] = this.candidates
    if (!first) throw new Error('the route has no candidate')
    return first
  }

  /**
   * Does some work for which the candidates stay open, though other models may take their place meanwhile: where models are
   * read again, `complete` and `open` are part of such a work.
   */
  async use<T>(work: () => Promise<T>): Promise<T> {
    this.#seekers.enter()
    try {
      return await work()
    } finally {
      this.#seekers.leave()
    }
  }

  /** @throws ApiError of the last candidate, or of one that blames the caller */
  complete(requestFor: RequestFor, signal: AbortSignal): Promise<Answered<ModelReply & { readonly retries: number }>> {
    return this.#ask(signal, async (candidate) => ({
      ...(await candidate.complete(await requestFor(candidate), signal)),
      candidate,
    }))
  }

  /**
   * Resolves when the first event is there; nothing is tried elsewhere after that.
   * @throws ApiError of the last candidate, or of one that blames the caller
   */
  open(requestFor: RequestFor, signal: AbortSignal): Promise<Answered<OpenedStream>> {
    return this.#ask(signal, async (candidate) => ({
      ...(await candidate.open(await requestFor(candidate), signal)),
      candidate,
    }))
  }

  /** Asks one candidate after the other, until one answers. */
  async #ask<T>(signal: AbortSignal, ask: (candidate: Candidate) => Promise<T>): Promise<T> {
    let failure: unknown
    for (const candidate of this.candidates) {
      try {
        return await ask(candidate)
      } catch (error) {
        failure = error
        // Nobody waits for another candidate's answer once the request has been given up.
        if (signal.aborted || saysNothingOfModel(toApiError(error))) throw error
      }
    }
    throw failure
  }
}
