import { field } from '../../fields.ts'

/** Error codes of a connection that the other side has closed. */
const closedCodes: ReadonlySet<unknown> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])

/** The errors of connections that broke after they had been reused. */
export const errorsOfReusedConnections = new WeakSet<Error>()

/** Connections that are replaced for one request. Several reused ones may be closed, but an upstream may also close each new one. */
const maxReplacements = 5

/**
 * Retries at once where a reused connection turns out to be closed before the answer began. Upstreams may close idle connections at
 * any time, so this is no failure of the upstream.
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
  // `fetch` wraps the network error as a cause.
  return isOfReused || wasReusedAndClosed(error.cause)
}
