import type { ApiError } from '../../errors.ts'
import type { ModelRequest } from '../model.ts'

/** The model that an attempt asks, and the request that it sends. */
export interface AttemptDetails {
  /** The model's name in `models.json`. For a model behind a prefix, this name is the prefix, such as `local/*`. */
  readonly configuredName: string
  /** The model's id at the upstream. */
  readonly upstreamId: string
  readonly request: ModelRequest
  readonly isStream: boolean
  /** How many attempts at this model came before this one. */
  readonly retries: number
}

/** One attempt to get an answer from a model. Metrics count the attempt, and traces show it. */
export interface Attempt {
  /** Headers that this attempt sends upstream, such as `traceparent`. */
  readonly headers?: Readonly<Record<string, string>>
  /** Call this method when the first event of a stream has come. */
  began(): void
  /** Call this method at the end. A failed attempt passes its error, which is `client_gone` if the client has left. */
  ended(error?: ApiError): void
}

/** Called at the start of each attempt. */
export type WatchAttempt = (attempted: AttemptDetails) => Attempt

const unwatched: Attempt = { began() {}, ended() {} }

/** Records nothing. For attempts that metrics and traces do not count, such as the attempts of a command. */
export const ignoreAttempts: WatchAttempt = () => unwatched
