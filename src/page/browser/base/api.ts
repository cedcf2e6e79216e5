import { Failure } from './failure.ts'
import { fetchWatched } from './watched-fetch.ts'

/** Options of a request. */
export interface RequestOptions {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Sent as a JSON body. */
  readonly json?: unknown
  /** Sent unchanged, instead of `json`. */
  readonly body?: Blob
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
  /** Called with the fraction of `body` that has been sent. */
  readonly onSent?: (fraction: number) => void
}

let key = ''
let refused: (reason: string) => void = () => {}
/** Aborted at the end of a session, because the next account must not get replies to requests of this account. */
let session = new AbortController()

/**
 * Begins a session with a key for all further requests, and aborts the requests of the previous session.
 * @param onRefused is called with the reason when the service refuses the key
 */
export function startSession(given: string, onRefused: (reason: string) => void): void {
  session.abort()
  session = new AbortController()
  key = given
  refused = onRefused
}

/** Continues the session with another key of the same account. Requests in flight go on. */
export function changeKey(given: string): void {
  key = given
}

/**
 * Sends a request to the service.
 * @param path relative to the URL of the page, such as `plants?limit=10`
 * @returns the reply. Its status is a success
 * @throws Failure for any other reply, and if no reply comes
 */
export async function ask(
  path: string,
  { method = 'GET', json, body, headers: more, signal: stopping, onSent }: RequestOptions = {},
): Promise<Response> {
  const asked = key
  const signal = AbortSignal.any(stopping ? [session.signal, stopping] : [session.signal])
  const headers = {
    authorization: `Bearer ${asked}`,
    ...(json === undefined ? {} : { 'content-type': 'application/json' }),
    ...more,
  }
  const request: RequestInit = {
    method,
    headers,
    cache: 'no-store',
    redirect: 'error',
    ...(json === undefined ? {} : { body: JSON.stringify(json) }),
    ...(body === undefined ? {} : { body }),
    signal,
  }
  const address = new URL(path, document.baseURI)
  const isWatched = onSent !== undefined && body !== undefined
  const replying = isWatched
    ? fetchWatched(address, { method, headers, body, signal }, onSent)
    : fetch(address, request)
  const reply = await replying.catch((error: unknown) => {
    throw signal.aborted ? Failure.of(error) : unreachable()
  })
  if (reply.ok) return reply
  const failure = await Failure.ofReply(reply)
  if (signal.aborted) throw Failure.of(signal.reason)
  // The key may have changed since the request was sent.
  if (reply.status === 401 && asked === key) refused(failure.message)
  throw failure
}

/**
 * Requests JSON. Its shape is not checked, because the page comes from the same service.
 * @throws Failure for a reply that is not a success, and for an incomplete or missing reply
 */
export async function getJson<T>(path: string, asking?: RequestOptions): Promise<T> {
  const { signal } = session
  const reply = await ask(path, asking)
  const value: T = await reply.json().catch(() => {
    throw signal.aborted ? Failure.of(signal.reason) : unreachable()
  })
  if (signal.aborted) throw Failure.of(signal.reason)
  return value
}

/** The failure of a request whose reply is missing or incomplete. */
export function unreachable(): Failure {
  return navigator.onLine
    ? new Failure(0, 'unreachable', 'The service does not answer. Check that it is running, then try again.')
    : new Failure(0, 'offline', 'This device is offline. Connect it, then try again.')
}
