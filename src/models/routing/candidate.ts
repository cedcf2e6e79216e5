import { type Clock, machineClock, pause } from '../../clock.ts'
import { ApiError, toApiError } from '../../errors.ts'
import type { Params, Timeouts } from '../configuration/settings.ts'
import type { ContentKind } from '../content-kinds.ts'
import { isTransient, isUnrelatedToModel } from '../faults.ts'
import type { Model, ModelEvent, ModelReply, ModelRequest } from '../model.ts'
import { withModel } from '../reason.ts'
import { type Attempt, ignoreAttempts, type WatchAttempt } from './attempt.ts'
import type { Breaker } from './breaker.ts'
import { Deadlines } from './deadlines.ts'
import { OpenEvents, type StreamContext } from './open-events.ts'

/** What a model of the configuration is, besides the adapter that talks to it. */
export interface CandidateTraits {
  /** Its name in `models.json`. */
  readonly name: string
  /** The name as it is written there, with its star, where that is another. */
  readonly configuredName?: string
  /** The id that it goes by upstream. */
  readonly upstreamId: string
  /** Where it is asked, with the port, where the settings say so. */
  readonly host?: string
  readonly timeouts?: Timeouts
  readonly retries?: number
  /** Tokens, the answer included; unknown without it. */
  readonly contextWindow?: number
  readonly defaults?: Readonly<Record<string, unknown>>
  readonly params?: Params
  /** Kinds of content that it takes; all of them without it. */
  readonly input?: readonly ContentKind[]
  readonly mergeMessages?: boolean
  readonly overflow?: 'drop-oldest'
}

/** A stream that has begun: what came first, and the rest. */
export interface OpenedStream {
  readonly retries: number
  readonly events: AsyncIterable<readonly ModelEvent[]>
}

/** How long a request may wait for another one that tries a failed model again. Milliseconds. */
const maxProbeWaitMs = 1000

const defaultRetries = 2
/** Milliseconds: the first pause, and the longest. */
const firstPauseMs = 250
const maxPauseMs = 8000

/** One model of the configuration: asks its adapter within time limits, again where that helps, and not while it is down. */
export class Candidate {
  readonly traits: CandidateTraits
  readonly model: Model
  /** Null for a model that is asked however often it fails. */
  readonly breaker: Breaker | null

  readonly #watch: WatchAttempt
  readonly #clock: Clock

  /** @param watch is told of each try */
  constructor(
    traits: CandidateTraits,
    model: Model,
    breaker: Breaker | null,
    watch: WatchAttempt = ignoreAttempts,
    clock: Clock = machineClock,
  ) {
    this.traits = traits
    this.model = model
    this.breaker = breaker
    this.#watch = watch
    this.#clock = clock
  }

  /** Its name in the settings, of which there are not more than the operator gave. */
  get configuredName(): string {
    return this.traits.configuredName ?? this.traits.name
  }

  /** Whether it would refuse a request now, since it keeps failing. */
  get isRefusing(): boolean {
    return this.breaker?.isRefusing ?? false
  }

  /**
   * @param mayWait whether it is worth waiting for another request that tries the model again
   * @throws ApiError when the last try has failed
   */
  async complete(
    request: ModelRequest,
    signal: AbortSignal,
    mayWait = false,
  ): Promise<ModelReply & { readonly retries: number }> {
    return this.#withRetries(signal, mayWait, async (retries) => {
      const deadlines = new Deadlines(signal, this.#clock, this.traits.timeouts)
      deadlines.startTotal()
      const [attempt, asked] = this.#begin(request, false, retries)
      try {
        const reply = await this.model.complete(asked, deadlines.signal)
        this.breaker?.recordSuccess()
        attempt.ended()
        return { ...reply, retries }
      } catch (thrown) {
        const error = withModel(
          toApiError(deadlines.signal.aborted ? deadlines.signal.reason : thrown),
          this.traits,
          request.body,
        )
        attempt.ended(error)
        throw error
      } finally {
        deadlines.end()
      }
    })
  }

  /**
   * Resolves when the first event is there; until then a failure is tried again, later ones are the stream's.
   * @param mayWait whether it is worth waiting for another request that tries the model again
   * @throws ApiError when the last try has failed
   */
  async open(request: ModelRequest, signal: AbortSignal, mayWait = false): Promise<OpenedStream> {
    return this.#withRetries(signal, mayWait, async (retries) => {
      const deadlines = new Deadlines(signal, this.#clock, this.traits.timeouts)
      deadlines.startTotal()
      deadlines.startFirstToken()
      const [attempt, asked] = this.#begin(request, true, retries)
      const iterator = this.model.stream(asked, deadlines.signal)[Symbol.asyncIterator]()
      try {
        const first = await iterator.next()
        if (first.done) throw new ApiError(502, 'upstream_error', 'The model ended without an answer. Try again.')
        this.breaker?.recordFirstEvent()
        attempt.began()
        deadlines.startIdle()
        return {
          retries,
          events: new OpenEvents(first.value, iterator, this.#streamContext(deadlines, attempt, request)),
        }
      } catch (thrown) {
        deadlines.end()
        const error = withModel(
          toApiError(deadlines.signal.aborted ? deadlines.signal.reason : thrown),
          this.traits,
          request.body,
        )
        attempt.ended(error)
        throw error
      }
    })
  }

  #streamContext(deadlines: Deadlines, attempt: Attempt, { body }: ModelRequest): StreamContext {
    return { deadlines, attempt, breaker: this.breaker, traits: this.traits, body }
  }

  /** Tells of a try, and gives what is asked in it. */
  #begin(request: ModelRequest, isStream: boolean, retries: number): [Attempt, ModelRequest] {
    const { upstreamId } = this.traits
    const attempt = this.#watch({ configuredName: this.configuredName, upstreamId, request, isStream, retries })
    return [attempt, attempt.headers ? { ...request, trace: attempt.headers } : request]
  }

  async #withRetries<T>(signal: AbortSignal, mayWait: boolean, attempt: (retries: number) => Promise<T>): Promise<T> {
    const maxRetries = this.traits.retries ?? defaultRetries
    for (let retries = 0; ; retries++) {
      if (this.breaker) await this.#pass(this.breaker, mayWait, signal)
      try {
        return await attempt(retries)
      } catch (thrown) {
        const error = toApiError(thrown)
        if (isUnrelatedToModel(error) || error.status === 429) this.breaker?.endWithoutResult()
        else this.breaker?.recordFailure()
        const waitMs = pauseMsBefore(error, retries)
        const mayRetry = isTransient(error) && waitMs <= maxPauseMs && this.breaker?.state !== 'open'
        if (retries >= maxRetries || !mayRetry || signal.aborted) throw error
        await pause(this.#clock, waitMs, signal)
      }
    }
  }

  /** Is let through, where it may wait as soon as another request has tried the model. @throws ApiError as `Breaker.pass` */
  async #pass(breaker: Breaker, mayWait: boolean, signal: AbortSignal): Promise<void> {
    if (mayWait && breaker.state === 'probing') {
      const probeWait = new AbortController()
      const timeout = pause(this.#clock, maxProbeWaitMs, AbortSignal.any([signal, probeWait.signal])).catch(
        () => 'called off',
      )
      let isWaiting = true
      void timeout.then(() => {
        isWaiting = false
      })
      // Of those that wait, the first may become the next that tries.
      while (isWaiting && breaker.state === 'probing') await Promise.race([breaker.probeEnded(), timeout])
      probeWait.abort()
      signal.throwIfAborted()
    }
    breaker.admit()
  }
}

/** Milliseconds to wait before the next try: what the upstream asked for, else twice as long each time, give or take half. */
function pauseMsBefore(error: ApiError, retries: number): number {
  const { 'retry-after-ms': milliseconds, 'retry-after': seconds } = error.headers
  const asked = milliseconds === undefined ? Number(seconds) * 1000 : Number(milliseconds)
  if (asked >= 0) return asked
  return Math.min(maxPauseMs / 1.5, firstPauseMs * 2 ** retries) * (0.5 + Math.random())
}
