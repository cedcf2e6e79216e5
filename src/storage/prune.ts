import { setTimeout as wait } from 'node:timers/promises'
import { unixSeconds } from '../time.ts'

/** A record whose old entries are removed. */
export interface Prunable {
  /**
   * Removes up to `max` entries that are older than `before` (Unix seconds), in one short transaction.
   * @returns how many entries were removed: 0 when none is left
   */
  prune(before: number, max: number): Promise<number>
}

/** How long entries of a record are kept. */
export interface Retention {
  readonly keptSeconds: number
  /** The time from the end of one search for old entries to the next; an hour without it. */
  readonly intervalMs?: number
}

const hourMs = 3_600_000
/** Entries that one transaction removes, and the shortest pause between transactions. */
const maxRowsPerTransaction = 500
const pauseMs = 20
/** A pause is at least so many times as long as the transaction before it: on a busy machine a transaction delays others for long. */
const pauseFactor = 3

/** The time after which a transaction of SQLite removes no more, and how many entries it removes between two checks of the clock. */
const maxTransactionMs = 3
const rowsPerClockCheck = 20

/**
 * Removes old entries of a record at an interval. The first search comes after a sixtieth of the interval.
 * @returns a function that stops this, and resolves when no transaction of it is running
 */
export function pruneOld(
  store: Prunable,
  { keptSeconds, intervalMs = hourMs }: Retention,
  onFailure: (error: unknown) => void,
): () => Promise<void> {
  const end = new AbortController()
  const { signal } = end
  const run = async (): Promise<void> => {
    for (let next = intervalMs / 60; !signal.aborted; next = intervalMs) {
      await wait(next, undefined, { signal, ref: false })
      await pruneOnce(store, unixSeconds() - keptSeconds, signal).catch((error: unknown) => {
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

/**
 * Removes all entries that are older than `before` (Unix seconds), in small transactions with pauses between them.
 * @returns how many entries were removed
 * @throws what the store throws, and the signal's reason when that aborts
 */
export async function pruneOnce(store: Prunable, before: number, signal?: AbortSignal): Promise<number> {
  let removed = 0
  for (;;) {
    const began = performance.now()
    const count = await store.prune(before, maxRowsPerTransaction)
    if (count === 0) return removed
    removed += count
    await wait(Math.max(pauseMs, pauseFactor * (performance.now() - began)), undefined, {
      ref: false,
      ...(signal ? { signal } : {}),
    })
  }
}

/**
 * Takes entries in a transaction that blocks the event loop: a few at a time, until it has taken a few milliseconds.
 * @param take removes or changes up to `max` entries, and returns how many
 * @returns how many entries were taken in all, at most `max`; 0 only when none is left
 */
export function takeBriefly(max: number, take: (max: number) => number): number {
  const end = performance.now() + maxTransactionMs
  let taken = 0
  do {
    const wanted = Math.min(rowsPerClockCheck, max - taken)
    const count = take(wanted)
    taken += count
    if (count < wanted) break
  } while (taken < max && performance.now() < end)
  return taken
}
