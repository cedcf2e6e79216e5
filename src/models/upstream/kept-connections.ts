import { field } from '../../fields.ts'

/** How the network says that the other side has closed a connection. */
const closedCodes: ReadonlySet<unknown> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])

/** What connections broke with that had been kept since another request. */
export const ofKeptConnections = new WeakSet<Error>()

/**
 * Whether a request failed before its answer began, since its connection, which was kept since another request, turned out to
 * be closed: upstreams close such connections when they like, and that says nothing of them.
 */
export function wasClosedWhileKept(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const isOfKept = closedCodes.has(field(error, 'code')) && ofKeptConnections.has(error)
  // `fetch` has the network's error as a cause.
  return isOfKept || wasClosedWhileKept(error.cause)
}
