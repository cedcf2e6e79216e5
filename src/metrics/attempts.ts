import type { ApiError } from '../errors.ts'
import type { WatchAttempt } from '../models/routing/attempt.ts'
import { isCallersFault } from '../models/routing/breaker.ts'
import type { Metrics } from './metrics.ts'

/**
 * What counts the tries at models.
 * @param also is told of the same tries: what traces them, where something does
 */
export function countAttempts({ operations, firstTokens }: Metrics, also?: WatchAttempt): WatchAttempt {
  return (attempted) => {
    const other = also?.(attempted)
    const { configuredName } = attempted
    const began = performance.now()
    const elapsed = () => (performance.now() - began) / 1000
    return {
      ...(other?.headers ? { headers: other.headers } : {}),
      began() {
        firstTokens.record(elapsed(), 'chat', configuredName)
        other?.began()
      },
      ended(error) {
        operations.record(elapsed(), 'chat', configuredName, error ? errorType(error) : '')
        other?.ended(error)
      },
    }
  }
}

/** The code of a failure. A refusal's is the upstream's own word, of which there may be any number: all are one. */
export function errorType(error: ApiError): string {
  if (error.status === 499) return 'client_gone'
  return isCallersFault(error) ? 'refused' : error.code
}
