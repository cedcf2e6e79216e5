import type { Actor } from '../audit/record.ts'
import { type Clock, pause } from '../clock.ts'
import type { CharacterUses } from './character-uses.ts'
import type { CharacterKey, CharacterStore } from './library/character.ts'
import { keptIfUsedSince } from './policy.ts'

/** Milliseconds between two looks for versions that are not kept any more. */
const everyHour = 3_600_000
/** Milliseconds that others have between two transactions. */
const between = 20

/** What a purge works on, and when. */
export interface PurgeOptions {
  readonly store: Pick<CharacterStore, 'purge'>
  /** What was used is written down first. */
  readonly uses: Pick<CharacterUses, 'flush'>
  readonly clock: Clock
  /** Unix seconds. */
  readonly now: () => number
  /** The service, as the records of what is removed name it. */
  readonly by?: Actor
  /** Is told how many versions were removed, where any were. */
  readonly onRemoved: (versions: number) => void
  readonly onFailure: (error: unknown) => void
}

/**
 * Removes versions of uploaded characters that are not kept any more, from a minute after this on, every hour.
 * @returns ends that, and resolves when nothing of it is going on
 */
export function purgeVersions(options: PurgeOptions): () => Promise<void> {
  const end = new AbortController()
  const { signal } = end
  const run = async (): Promise<void> => {
    for (let next = everyHour / 60; ; next = everyHour) {
      await pause(options.clock, next, signal)
      await purgeOnce(options, signal).catch((error: unknown) => {
        if (!signal.aborted) options.onFailure(error)
      })
    }
  }
  const running = run().catch(() => undefined)
  return () => {
    end.abort()
    return running
  }
}

/** Removes what there is to remove now, in small transactions. */
async function purgeOnce({ store, uses, clock, now, by, onRemoved }: PurgeOptions, signal: AbortSignal): Promise<void> {
  await uses.flush()
  let removed = 0
  try {
    for (let after: CharacterKey | null = null; ; ) {
      const step = await store.purge(after, keptIfUsedSince(now()), by)
      removed += step.removed.length
      if (step.isLast) return
      after = step.after
      await pause(clock, between, signal)
    }
  } finally {
    if (removed > 0) onRemoved(removed)
  }
}
