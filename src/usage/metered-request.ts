import type { Key } from '../access/access.ts'
import type { Headers } from '../access/request-counter.ts'
import { openAiTokenHeaders } from '../limits/headers.ts'
import type { Limiter, Reservation } from '../limits/limiter.ts'
import { type Moment, nextMoment } from '../time.ts'
import type { Ledger, LedgerEntry } from './ledger.ts'
import type { Meter, Used } from './meter.ts'
import { type End, Outcome } from './outcome.ts'

/** A chat request that is about to ask a model. */
export interface RequestToMeter {
  /** The request's id. */
  readonly id: string
  readonly key: Key
  /** As it was asked for. */
  readonly model: string
  /** Such as `Fern@sha256:…`; null where nobody is played. */
  readonly character: string | null
  /** About how many tokens the prompt has; asked only where that counts. */
  readonly promptTokens: () => number
  /** How many tokens the reply may have; asked in the same way. */
  readonly replyTokens: () => number
}

/** Told what requests have used, to count it. */
export interface UsageObserver {
  /** @param model the one that answered, by its name in the settings */
  used(model: string, used: Used): void
  /** An upstream has read under half of a prompt. @param model as above */
  truncated(model: string): void
}

/** What metering counts and records with. */
export interface MeteringOptions {
  readonly limiter: Pick<Limiter, 'reserve'>
  readonly ledger: Ledger
  /** Told when the end of a request could not be put down yet. */
  readonly onFailure: (requestId: string, error: unknown) => void
  readonly watch?: UsageObserver
}

/** The chat requests that ask models: each holds what it may use, and is put down in the ledger with what it used. */
export class Metering {
  readonly #options: MeteringOptions

  constructor(options: MeteringOptions) {
    this.#options = options
  }

  /**
   * Lets a request in; the caller ends the metered request, however the chat request ends.
   * @param outcome is written while the request goes on
   * @throws ApiError 429 when a limit is reached, and what the ledger says when it cannot be written
   */
  async enter(request: RequestToMeter, outcome = new Outcome()): Promise<MeteredRequest> {
    const { limiter, ledger } = this.#options
    const arrived = performance.now()
    const created = nextMoment()
    const reservation = await limiter.reserve(request.key, () => request.promptTokens() + request.replyTokens())
    const metered = new MeteredRequest(request, outcome, reservation, { arrived, created }, this.#options)
    if (!reservation.hasSpendingLimit) return metered
    try {
      await ledger.begin(metered.entry({ promptTokens: 0, completionTokens: 0, isExact: false }))
    } catch (error) {
      void reservation.settle(0)
      throw error
    }
    return metered
  }
}

/** One chat request, from before a model is asked until its reply is about to be complete. */
export class MeteredRequest {
  readonly #request: RequestToMeter
  readonly #outcome: Outcome
  readonly #reservation: Reservation
  readonly #times: { readonly arrived: number; readonly created: Moment }
  readonly #options: MeteringOptions
  #firstTokenMs: number | null = null

  constructor(
    request: RequestToMeter,
    outcome: Outcome,
    reservation: Reservation,
    times: { readonly arrived: number; readonly created: Moment },
    options: MeteringOptions,
  ) {
    this.#request = request
    this.#outcome = outcome
    this.#reservation = reservation
    this.#times = times
    this.#options = options
  }

  /** Counts what the reply uses. */
  get meter(): Meter {
    return this.#outcome.meter
  }

  /** What tells the caller how many tokens are left. */
  get headers(): Headers {
    const { allowance } = this.#reservation
    return allowance ? openAiTokenHeaders(allowance) : {}
  }

  /** The first event of a stream is there. */
  began(): void {
    this.#firstTokenMs ??= this.#elapsed()
  }

  /**
   * Settles what was used, and puts it down; only the first end of a request counts.
   * @returns a promise where the caller may hear of the end only once it is kept, or other replicas know of it; it never
   *   rejects
   */
  end(end: End): Promise<void> | undefined {
    const outcome = this.#outcome
    if (!outcome.end(end)) return undefined
    const used = outcome.meter.used(outcome.isFree ? () => 0 : this.#request.promptTokens)
    const { ledger, onFailure, watch } = this.#options
    const entry = this.entry(used)
    const { hasSpendingLimit } = this.#reservation
    const recorded = hasSpendingLimit ? ledger.finish(entry) : undefined
    const told = recorded?.catch((error: unknown) => onFailure(entry.id, error))
    const settled = this.#reservation.settle(used.promptTokens + used.completionTokens, recorded)
    if (!recorded) ledger.record(entry)
    if (outcome.answering) watch?.used(outcome.answering.configuredName, used)
    if (outcome.answering && outcome.truncated !== null) watch?.truncated(outcome.answering.configuredName)
    return settled ?? told
  }

  /** What the ledger keeps of it. */
  entry({ promptTokens, completionTokens, isExact }: Used): LedgerEntry {
    const { id, key, model, character } = this.#request
    const { answering, state, truncated } = this.#outcome
    const { created } = this.#times
    return {
      id,
      account: key.account.id,
      keyId: key.id,
      keyPrefix: key.prefix,
      model,
      modelUsed: answering?.name ?? null,
      character,
      created: created.second,
      microsecond: created.microsecond,
      reservedTokens: this.#reservation.tokens,
      promptTokens,
      completionTokens,
      tokensExact: isExact,
      firstTokenMs: this.#firstTokenMs,
      totalMs: this.#elapsed(),
      retries: answering?.retries ?? 0,
      state,
      upstreamTruncated: truncated,
    }
  }

  #elapsed(): number {
    return Math.round(performance.now() - this.#times.arrived)
  }
}
