import { field } from '../../fields.ts'

/** How the network says that the other side has closed a connection. */
const closedCodes: ReadonlySet<unknown> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])

/** What connections broke with that had been kept since another request. */
export const errorsOfReusedConnections = new WeakSet<Error>()

/** How many connections are replaced for one request: others that were kept may be closed too, but an upstream may close them all. */
const maxReplacements = 5

/**
 * Asks again at once where the connection, which was kept since another request, turns out to be closed before the answer began:
 * upstreams close such connections when they like, and that says nothing of them.
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
  // `fetch` has the network's error as a cause.
  return isOfReused || wasReusedAndClosed(error.cause)
}
