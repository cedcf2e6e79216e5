import { setTimeout as wait } from 'node:timers/promises'
import { unixSeconds } from '../time.ts'
import type { Ledger } from './ledger.ts'

/** Milliseconds between two looks for entries that are too old. */
const everyHour = 3_600_000
/** Entries that are removed at once, and the milliseconds that others have in between. */
const batch = 200
const pause = 20

/**
 * Keeps the ledger, or another record of what happened, to so many days, from a minute after this on.
 * @returns ends that, and resolves when nothing of it is going on
 */
export function pruneLedger(
  ledger: Pick<Ledger, 'prune'>,
  days: number,
  onFailure: (error: unknown) => void,
): () => Promise<void> {
  const end = new AbortController()
  const { signal } = end
  const run = async (): Promise<void> => {
    for (let next = everyHour / 60; !signal.aborted; next = everyHour) {
      await wait(next, undefined, { signal, ref: false })
      await pruneOnce(ledger, unixSeconds() - days * 86_400, signal).catch((error: unknown) => {
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
export async function pruneOnce(ledger: Pick<Ledger, 'prune'>, before: number, signal?: AbortSignal): Promise<void> {
  while ((await ledger.prune(before, batch)) === batch) {
    await wait(pause, undefined, { ref: false, ...(signal ? { signal } : {}) })
  }
}
