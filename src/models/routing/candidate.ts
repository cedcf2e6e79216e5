import { type Clock, machineClock, pause } from '../../clock.ts'
import { ApiError } from '../../errors.ts'
import type { Params, Roles, Timeouts } from '../configuration/settings.ts'
import type { ContentKind } from '../content-kinds.ts'
import { isTransient } from '../faults.ts'
import type { Model, ModelEvent, ModelReply, ModelRequest } from '../model.ts'
import { Deadlines, ignoreAttempts, RunningAttempt, type WatchAttempt } from './attempt.ts'
import type { Breaker, Probe } from './breaker.ts'

/** The settings of a configured model that do not depend on its adapter. */
export interface CandidateTraits {
  /** The model's name, as `x-model` shows it: the name in `models.json`. For the prefix `*`, it is the id in the request. */
  readonly name: string
  /**
   * The name in `models.json`, if it may differ from `name`. For a model behind a prefix, it is the prefix, such as `local/*`.
   */
  readonly configuredName?: string
  /** The model's id at the upstream. */
  readonly upstreamId: string
  /** Host and port of the upstream, if the settings have its address. */
  readonly host?: string
  readonly timeouts?: Timeouts
  readonly retries?: number
  /** The most tokens of prompt and answer together. Undefined if the settings do not set it. */
  readonly contextWindow?: number
  readonly defaults?: Readonly<Record<string, unknown>>
  readonly params?: Params
  /** Kinds of content that the model takes; undefined for all kinds. */
  readonly input?: readonly ContentKind[]
  /** Whether the upstream reads the parameters of a request itself. Then they may have any value. */
  readonly relaysParameters?: boolean
  /** Whether messages may have URLs with an IP address or a private name as host; false by default. */
  readonly privateUrls?: boolean
  readonly roles?: Roles
  readonly mergeMessages?: boolean
  readonly overflow?: 'drop-oldest'
}

/** A stream whose first events have come. */
export interface OpenedStream {
  readonly retries: number
  readonly events: AsyncIterable<readonly ModelEvent[]>
}

/** What an attempt asks, and how. */
interface Asked {
  readonly request: ModelRequest
  readonly signal: AbortSignal
  readonly mayWait: boolean
  readonly isStream: boolean
}

/** Milliseconds that a request may wait for the probe of another request. */
const maxProbeWaitMs = 1000

const defaultRetries = 2
/** The first pause between two attempts, without jitter. Each further pause is twice as long, up to `maxPauseMs`. */
const firstPauseMs = 250
/** The longest pause, including jitter. If an upstream asks for a longer pause, the request is not retried. */
const maxPauseMs = 8000

/** One configured model: calls its adapter with deadlines, retries and a circuit breaker. */
export class Candidate {
  readonly traits: CandidateTraits
  readonly model: Model
  /** Null for a model without a circuit breaker, such as an understudy. */
  readonly breaker: Breaker | null

  readonly #watch: WatchAttempt
  readonly #clock: Clock

  /** @param watch called at the start of each attempt */
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

  /** The model's name in the settings. Metrics use it as a label, because callers cannot add names to the settings. */
  get configuredName(): string {
    return this.traits.configuredName ?? this.traits.name
  }

  /** Whether the breaker would refuse a request now. */
  get isRefusing(): boolean {
    return this.breaker?.isRefusing ?? false
  }

  /**
   * Asks for a whole reply.
   * @param mayWait whether to wait up to 1 s for the probe of another request, and then ask the model anyway
   * @throws ApiError of the last attempt; 503 `model_unavailable` if the breaker refuses the request; the signal's reason if the
   *   signal aborts between two attempts
   */
  complete(
    request: ModelRequest,
    signal: AbortSignal,
    mayWait = false,
  ): Promise<ModelReply & { readonly retries: number }> {
    return this.#ask(
      { request, signal, mayWait, isStream: false },
      (asked, attemptSignal) => this.model.complete(asked, attemptSignal),
      (reply, attempt, retries) => {
        attempt.succeed()
        return { ...reply, retries }
      },
    )
  }

  /**
   * Resolves when the first event has come. A failure before the first event may be retried; a later failure ends the stream.
   * @param mayWait and @throws as `complete`
   */
  open(request: ModelRequest, signal: AbortSignal, mayWait = false): Promise<OpenedStream> {
    return this.#ask(
      { request, signal, mayWait, isStream: true },
      (asked, attemptSignal) => firstOf(this.model.stream(asked, attemptSignal)),
      ({ first, iterator }, attempt, retries) => {
        attempt.begin()
        return { retries, events: new OpenEvents(first, iterator, attempt) }
      },
    )
  }

  /** Asks the model, and asks again after failures that may pass. @param take takes the answer of the attempt that succeeds */
  async #ask<Answer, Taken>(
    asked: Asked,
    ask: (request: ModelRequest, signal: AbortSignal) => Promise<Answer>,
    take: (answer: Answer, attempt: RunningAttempt, retries: number) => Taken,
  ): Promise<Taken> {
    const { request, signal, mayWait } = asked
    for (let retries = 0; ; retries++) {
      const waiting =
        mayWait && this.breaker?.state === 'probing' ? this.#waitForProbe(this.breaker, signal) : undefined
      const attempt = this.#start(asked, retries, waiting ? await waiting : this.breaker?.admit())
      try {
        return take(await ask(attempt.request, attempt.deadlines.signal), attempt, retries)
      } catch (thrown) {
        const error = attempt.fail(thrown)
        if (signal.aborted) throw error
        request.onSent?.(false)
        const waitMs = this.#pauseMsAfter(error, retries)
        if (waitMs === undefined) throw error
        await pause(this.#clock, waitMs, signal)
      }
    }
  }

  #start({ request, signal, isStream }: Asked, retries: number, probe: Probe | undefined): RunningAttempt {
    const { configuredName, traits, breaker } = this
    const deadlines = new Deadlines(signal, this.#clock, isStream, traits.timeouts)
    const watched = this.#watch({ configuredName, upstreamId: traits.upstreamId, request, isStream, retries })
    return new RunningAttempt(request, { deadlines, watched, breaker, probe, traits })
  }

  /** Milliseconds between a failure and the next attempt; undefined if no attempt may follow. */
  #pauseMsAfter(error: ApiError, retries: number): number | undefined {
    if (retries >= (this.traits.retries ?? defaultRetries) || !isTransient(error)) return undefined
    const waitMs = pauseMsBefore(error, retries)
    return waitMs <= maxPauseMs && (this.breaker?.state ?? 'closed') === 'closed' ? waitMs : undefined
  }

  /** Waits for a probe, but not for long. @throws the signal's reason after an abort; errors of `Breaker.admit` */
  async #waitForProbe(breaker: Breaker, signal: AbortSignal): Promise<Probe | undefined> {
    const probeWait = new AbortController()
    const timeout = pause(this.#clock, maxProbeWaitMs, AbortSignal.any([signal, probeWait.signal])).catch(
      () => 'called off',
    )
    let isWaiting = true
    void timeout.then(() => {
      isWaiting = false
    })
    // If the client of a probe leaves, the first waiting request starts the next probe. Then the other requests wait for that
    // probe.
    while (isWaiting && breaker.state === 'probing') await Promise.race([breaker.probeEnded(), timeout])
    probeWait.abort()
    signal.throwIfAborted()
    // A probe may take long, and most probes succeed. So a request that has waited for it is let through.
    return breaker.state === 'probing' ? undefined : breaker.admit()
  }
}

/** Waits for the first events of a stream. @throws ApiError 502 if the stream ends without an event */
async function firstOf(stream: AsyncIterable<readonly ModelEvent[]>) {
  const iterator = stream[Symbol.asyncIterator]()
  const first = await iterator.next()
  if (first.done) throw new ApiError(502, 'upstream_error', 'The model ended without an answer. Try again.')
  return { first: first.value, iterator }
}

/**
 * Milliseconds before the next attempt: the pause that the upstream asked for, else exponential backoff with a jitter of ±50 %.
 */
function pauseMsBefore(error: ApiError, retries: number): number {
  const { 'retry-after-ms': milliseconds, 'retry-after': seconds } = error.headers
  const asked = milliseconds === undefined ? Number(seconds) * 1000 : Number(milliseconds)
  if (asked >= 0) return asked
  return Math.min(maxPauseMs / 1.5, firstPauseMs * 2 ** retries) * (0.5 + Math.random())
}

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
