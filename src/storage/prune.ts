import { setTimeout as wait } from 'node:timers/promises'
import { inBackground } from '../clock.ts'
import { unixSeconds } from '../time.ts'

/**
 * A store with old entries to remove, such as the ledger or the audit trail. The sums of days use this interface too: there
 * `prune` does not remove requests, but adds them to the sums.
 */
export interface Prunable {
  /**
   * Removes up to `max` entries that are older than `before` (Unix seconds), in one short transaction.
   * @returns how many entries were removed: 0 when no old entry is left
   */
  prune(before: number, max: number): Promise<number>
}

/** How long the entries of a store are kept. */
export interface Retention {
  readonly keptSeconds: number
  /** The time from the end of one removal to the start of the next; by default an hour. */
  readonly intervalMs?: number
}

const hourMs = 3_600_000
/** The most entries that one transaction removes, and the shortest pause after a transaction. */
const maxRowsPerTransaction = 500
const pauseMs = 20
/** A pause is at least this many times as long as the transaction before it: on a busy machine, transactions delay each other. */
const pauseFactor = 3

/** After this time a transaction of SQLite removes no more entries. */
const maxTransactionMs = 3
/** How many rows such a transaction removes before it reads the clock again. */
const rowsPerClockCheck = 20

/**
 * Removes old entries of a store at an interval. The first removal begins after a sixtieth of the interval.
 * @returns a function that stops the removal, and resolves when its last transaction has ended
 */
export function pruneOld(
  store: Prunable,
  { keptSeconds, intervalMs = hourMs }: Retention,
  onFailure: (error: unknown) => void,
): () => Promise<void> {
  return inBackground(async (signal) => {
    for (let next = intervalMs / 60; !signal.aborted; next = intervalMs) {
      await wait(next, undefined, { signal, ref: false })
      await pruneOnce(store, unixSeconds() - keptSeconds, signal).catch((error: unknown) => {
        if (!signal.aborted) onFailure(error)
      })
    }
  })
}

/**
 * Removes all entries that are older than `before` (Unix seconds), in small transactions with pauses between them.
 * @returns how many entries were removed
 * @throws the error of the store; an AbortError when the signal aborts
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
 * Removes or changes entries in a transaction that blocks the event loop, a few at a time, and stops after some milliseconds.
 * @param take removes or changes up to `max` entries, and returns how many
 * @returns how many entries were removed or changed, at most `max`; 0 only when no entry is left
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
