import { setTimeout as wait } from 'node:timers/promises'
import { unixSeconds } from '../time.ts'

/** A record of what happened, of which only so much of the past is kept. */
export interface Prunable {
  /**
   * Removes entries from before a time in Unix seconds, at most so many, in one short transaction.
   * @returns how many those were: 0 when none is left
   */
  prune(before: number, most: number): Promise<number>
}

/** How much of a record is kept. */
export interface Retention {
  /** Seconds. */
  readonly keptSeconds: number
  /** Milliseconds from the end of one search for entries that are too old to the next; an hour without it. */
  readonly intervalMs?: number
}

const hourMs = 3_600_000
/** Entries that one transaction removes at most, and the milliseconds that others have in between. */
const mostAtOnce = 500
const pauseMs = 20
/** How often as long as a transaction took others have at least: on a busy machine it takes long, and is in their way. */
const pauseShare = 3

/** Milliseconds after which a transaction of SQLite removes no more, and the entries between two looks at the time. */
const longestMs = 3
const entriesToLook = 20

/**
 * Keeps a record to so much of the past. The first search comes after a sixtieth of the interval.
 * @returns ends that, and resolves when nothing of it is going on
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
 * Removes all entries from before a time in Unix seconds, in small transactions with pauses between them.
 * @returns how many those were
 * @throws what the store throws, and the signal's reason when that aborts
 */
export async function pruneOnce(store: Prunable, before: number, signal?: AbortSignal): Promise<number> {
  let removed = 0
  for (;;) {
    const began = performance.now()
    const count = await store.prune(before, mostAtOnce)
    if (count === 0) return removed
    removed += count
    await wait(Math.max(pauseMs, pauseShare * (performance.now() - began)), undefined, {
      ref: false,
      ...(signal ? { signal } : {}),
    })
  }
}

/**
 * Takes entries where that holds the event loop: a few at a time, until the transaction has taken a few milliseconds.
 * @param take removes or changes at most so many, and gives how many those were
 * @returns how many those were in all, at most `most`; 0 only when none is left
 */
export function takeBriefly(most: number, take: (most: number) => number): number {
  const end = performance.now() + longestMs
  let taken = 0
  do {
    const asked = Math.min(entriesToLook, most - taken)
    const count = take(asked)
    taken += count
    if (count < asked) break
  } while (taken < most && performance.now() < end)
  return taken
}
