import type { Clock } from '../clock.ts'
import type { Model } from './model.ts'

/** When a list is this old, it is read again. The other values are the pause after a failed read, and the timeout of a read. */
const maxAgeMs = 300_000
const retryAfterMs = 60_000
const timeoutMs = 10_000

interface CacheEntry {
  ids: readonly string[]
  /** The time, in milliseconds of the clock, after which the next use of the list reads it again. */
  dueAt: number
}

/**
 * Caches the lists of models of upstreams, by the names of their prefixes in the settings. Lists are read in the background, so
 * that no request waits for a list. The first request gets an empty list.
 */
export class UpstreamModelsCache {
  readonly #clock: Clock
  readonly #entries = new Map<string, CacheEntry>()
  readonly #closing = new AbortController()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The ids in the last list of the model's upstream. If the list is too old, starts to read it again. */
  idsOf(name: string, model: Model): readonly string[] {
    const entry = this.#entries.get(name) ?? { ids: [], dueAt: 0 }
    this.#entries.set(name, entry)
    if (model.list && entry.dueAt <= this.#clock.now()) {
      entry.dueAt = this.#clock.now() + retryAfterMs
      void this.#read(model.list, entry)
    }
    return entry.ids
  }

  /** Aborts reads in flight. */
  close(): void {
    this.#closing.abort()
  }

  /** Reads a list. After a failure, the previous list stays. */
  async #read(list: NonNullable<Model['list']>, entry: CacheEntry): Promise<void> {
    const tooLate = new AbortController()
    const timer = this.#clock.setTimeout(() => tooLate.abort(), timeoutMs)
    try {
      entry.ids = await list(AbortSignal.any([tooLate.signal, this.#closing.signal]))
      entry.dueAt = this.#clock.now() + maxAgeMs
    } catch {
      // The next read may succeed.
    } finally {
      timer.close()
    }
  }
}
