import type { ApiError } from '../../errors.ts'
import type { ModelRequest } from '../model.ts'

/** Which model is tried, and with what. */
export interface AttemptDetails {
  /** Its name in `models.json` as it is written there, with the star where it has one. */
  readonly configuredName: string
  /** The id that it goes by upstream. */
  readonly upstreamId: string
  readonly request: ModelRequest
  readonly isStream: boolean
  /** How often it has been tried before. */
  readonly retries: number
}

/** One try at a model, as it is counted and traced. */
export interface Attempt {
  /** Headers that go upstream with it, such as `traceparent`. */
  readonly headers?: Readonly<Record<string, string>>
  /** The first event of a stream is there. */
  began(): void
  /** It is over; with the error that it failed with, or `client_gone` when nobody wants the rest. */
  ended(error?: ApiError): void
}

/** Told of each try at a model. */
export type WatchAttempt = (attempted: AttemptDetails) => Attempt

const unwatched: Attempt = { began() {}, ended() {} }

/** Lets tries go uncounted, as where a command asks a model. */
export const ignoreAttempts: WatchAttempt = () => unwatched
