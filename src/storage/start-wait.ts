import { setTimeout as sleep } from 'node:timers/promises'
import { StorageNotReady } from '../errors.ts'

const pauseMs = 500

/** Opens a part of the service, and retries while the part is not ready. */
export type OpenWithRetry = <T>(open: () => T | Promise<T>) => Promise<T>

/**
 * Makes a function that opens parts of the service at the start. All parts share one timeout.
 * @param timeoutSeconds how long the parts may wait in total; with 0, nothing is retried
 * @param tell reports once that the start waits, and for what
 * @returns a function that rejects with the error of the last attempt; any error but a `StorageNotReady` ends the attempts
 */
export function retryAtStart(timeoutSeconds: number, tell: (sentence: string) => void): OpenWithRetry {
  const end = performance.now() + timeoutSeconds * 1000
  let hasReported = false
  return async (open) => {
    for (;;) {
      try {
        return await open()
      } catch (error) {
        if (!(error instanceof StorageNotReady) || performance.now() + pauseMs > end) throw error
        if (!hasReported)
          tell(`${error.message} The start waits for it, ${timeoutSeconds} seconds at most (START_TIMEOUT).`)
        hasReported = true
      }
      await sleep(pauseMs)
    }
  }
}
