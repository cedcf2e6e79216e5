import { field } from '../../fields.ts'

/** Error codes of a connection that the other side has closed. */
const closedCodes: ReadonlySet<unknown> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])

/** The errors of reused connections that broke. `pool.ts` adds these errors, but not for connections to proxies. */
export const errorsOfReusedConnections = new WeakSet<Error>()

/** The most retries of one request: several idle connections may be closed, but the retries must end. */
const maxReplacements = 5

/**
 * Retries immediately if a reused direct connection turns out to be closed before the answer has begun. Upstreams may close idle
 * connections at any time, so a closed connection is no failure of the upstream.
 */
export async function retryOnClosedConnection<T>(ask: () => Promise<T>): Promise<T> {
  for (let replaced = 0; ; replaced++) {
    try {
      return await ask()
    } catch (error) {
      if (replaced === maxReplacements || !wasReusedAndClosed(error)) throw error
    }
  }
}

function wasReusedAndClosed(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const isOfReused = closedCodes.has(field(error, 'code')) && errorsOfReusedConnections.has(error)
  // An error of `fetch` has the network error as its cause.
  return isOfReused || wasReusedAndClosed(error.cause)
}
