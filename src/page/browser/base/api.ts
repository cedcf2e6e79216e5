import { Failure } from './failure.ts'
import { fetchWatched } from './watched-fetch.ts'

/** How something is asked for. */
export interface Asking {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Sent as a JSON body. */
  readonly json?: unknown
  /** Sent as it is, in place of `json`. */
  readonly body?: Blob
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
  /** Told what fraction of `body` has been sent, while it is. */
  readonly onSent?: (fraction: number) => void
}

let key = ''
let refused: (reason: string) => void = () => {}
/** Aborted when somebody else may sign in: what was asked for before must not come to them. */
let session = new AbortController()

/**
 * Begins a session with the key that all requests have from now on, and ends the requests of the session before.
 * @param onRefused is told why, when the service does not take the key any more
 */
export function giveKey(given: string, onRefused: (reason: string) => void): void {
  session.abort()
  session = new AbortController()
  key = given
  refused = onRefused
}

/** Goes on with another key of the same account: requests that are on their way go on too. */
export function changeKey(given: string): void {
  key = given
}

/**
 * Asks the service.
 * @param path below the address of the page, without a slash in front, such as `plants?limit=10`
 * @returns its reply, which is a success
 * @throws Failure for any other reply, and where there is none
 */
export async function ask(
  path: string,
  { method = 'GET', json, body, headers: more, signal: stopping, onSent }: Asking = {},
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
  // A key may have been changed while the reply was on its way.
  if (reply.status === 401 && asked === key) refused(failure.message)
  throw failure
}

/**
 * Asks for JSON. The page comes from the service that answers it, so that both agree on the shape.
 * @throws Failure as `ask`
 */
export async function getJson<T>(path: string, asking?: Asking): Promise<T> {
  const { signal } = session
  const reply = await ask(path, asking)
  const value: T = await reply.json().catch(() => {
    throw signal.aborted ? Failure.of(signal.reason) : unreachable()
  })
  if (signal.aborted) throw Failure.of(signal.reason)
  return value
}

/** The failure of a request that the service was not reached with, or that broke off. */
export function unreachable(): Failure {
  return navigator.onLine
    ? new Failure(0, 'unreachable', 'The service does not answer. Check that it is running, then try again.')
    : new Failure(0, 'offline', 'This device is offline. Connect it, then try again.')
}
