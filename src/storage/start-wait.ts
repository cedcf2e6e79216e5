import { setTimeout as sleep } from 'node:timers/promises'
import { StorageNotReady } from '../errors.ts'

/** Milliseconds between two tries. */
const pause = 500

/** Opens a part of the service, again where it is not ready yet. */
export type OpenWithRetry = <T>(open: () => T | Promise<T>) => Promise<T>

/**
 * Gives a way to open what may not be ready when the service starts. All that is opened by it shares one time.
 * @param seconds the longest wait; 0 tries once
 * @param tell is told once that the start waits, and for what
 * @returns rejects with what the last try threw, and at once with any error but a `StorageNotReady`
 */
export function retryAtStart(seconds: number, tell: (sentence: string) => void): OpenWithRetry {
  const end = performance.now() + seconds * 1000
  let hasTold = false
  return async (open) => {
    for (;;) {
      try {
        return await open()
      } catch (error) {
        if (!(error instanceof StorageNotReady) || performance.now() + pause > end) throw error
        if (!hasTold) tell(`${error.message} The start waits for it, ${seconds} seconds at most (START_TIMEOUT).`)
        hasTold = true
      }
      await sleep(pause)
    }
  }
}
