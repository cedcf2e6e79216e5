import type { Clock } from '../clock.ts'
import type { Model } from './model.ts'

/** The age at which a list is read again, the pause after a failed read, and the timeout of a read. */
const maxAgeMs = 300_000
const retryAfterMs = 60_000
const timeoutMs = 10_000

interface CacheEntry {
  ids: readonly string[]
  /** From this time on, the next use of the list reads it again. By the clock, in milliseconds. */
  dueAt: number
}

/**
 * Caches the lists of models of upstreams, by the names of their prefixes in the settings. Lists are read in the background, so
 * no request waits for a list, and the first request gets an empty list.
 */
export class UpstreamModelsCache {
  readonly #clock: Clock
  readonly #entries = new Map<string, CacheEntry>()
  readonly #closing = new AbortController()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The ids of the last list of the model's upstream. Begins to read the list if it is too old. */
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
