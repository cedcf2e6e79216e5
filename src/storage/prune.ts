import { setTimeout as wait } from 'node:timers/promises'
import { unixSeconds } from '../time.ts'

/** A record of what happened, of which only so many days are kept. */
export interface Prunable {
  /** Removes up to so many entries from before a time in Unix seconds, and gives how many those were. */
  prune(before: number, most: number): Promise<number>
}

/** Milliseconds between two looks for entries that are too old. */
const everyHour = 3_600_000
/** Entries that are removed at once, and the milliseconds that others have in between. */
const batch = 200
const pause = 20

/**
 * Keeps a record to so many days, from a minute after this on.
 * @returns ends that, and resolves when nothing of it is going on
 */
export function pruneOld(store: Prunable, days: number, onFailure: (error: unknown) => void): () => Promise<void> {
  const end = new AbortController()
  const { signal } = end
  const run = async (): Promise<void> => {
    for (let next = everyHour / 60; !signal.aborted; next = everyHour) {
      await wait(next, undefined, { signal, ref: false })
      await pruneOnce(store, unixSeconds() - days * 86_400, signal).catch((error: unknown) => {
        if (!signal.aborted) onFailure(error)
      })
    }
  }
  const running = run().catch(() => undefined)
  return () => {
    end.abort()
    return running
  }
}

/** Removes all entries from before a time in Unix seconds, in small batches. */
export async function pruneOnce(store: Prunable, before: number, signal?: AbortSignal): Promise<void> {
  while ((await store.prune(before, batch)) === batch) {
    await wait(pause, undefined, { ref: false, ...(signal ? { signal } : {}) })
  }
}
