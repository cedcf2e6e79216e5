import type { Actor } from '../audit/record.ts'
import { type Clock, inBackground, pause } from '../clock.ts'
import type { CharacterUses } from './character-uses.ts'
import type { CharacterKey, CharacterStore } from './library/character.ts'
import { keptIfUsedSince } from './policy.ts'

/** Milliseconds between two purges: an hour. */
const intervalMs = 3_600_000
/** Milliseconds between two transactions, so that other writes can run. */
const pauseMs = 20

/** The options of the purges. */
export interface PurgeOptions {
  readonly store: Pick<CharacterStore, 'purge'>
  /** The pending uses, which are written before each purge. */
  readonly uses: Pick<CharacterUses, 'flush'>
  readonly clock: Clock
  /** Unix seconds. */
  readonly now: () => number
  /** The actor in the audit records: the service. */
  readonly by?: Actor
  /** Called after a purge with the number of removed versions, unless it is 0. */
  readonly onRemoved: (versions: number) => void
  readonly onFailure: (error: unknown) => void
}

/**
 * Removes expired versions of uploaded characters every hour, the first time after a minute.
 * @returns a function that stops the purges, and resolves when no purge is running
 */
export function purgeVersions(options: PurgeOptions): () => Promise<void> {
  return inBackground(async (signal) => {
    for (let next = intervalMs / 60; ; next = intervalMs) {
      await pause(options.clock, next, signal)
      await purgeOnce(options, signal).catch((error: unknown) => {
        if (!signal.aborted) options.onFailure(error)
      })
    }
  })
}

/** Removes all versions that are expired now, in small transactions. */
async function purgeOnce({ store, uses, clock, now, by, onRemoved }: PurgeOptions, signal: AbortSignal): Promise<void> {
  await uses.flush()
  let removed = 0
  try {
    for (let after: CharacterKey | null = null; ; ) {
      const step = await store.purge(after, keptIfUsedSince(now()), by)
      removed += step.removed.length
      if (step.isLast) return
      after = step.after
      await pause(clock, pauseMs, signal)
    }
  } finally {
    if (removed > 0) onRemoved(removed)
  }
}
