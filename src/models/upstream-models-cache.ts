import type { Clock } from '../clock.ts'
import type { Model } from './model.ts'

/** Milliseconds for which a list holds, after which one that could not be had is asked for again, and that an upstream has. */
const maxAgeMs = 300_000
const retryAfterMs = 60_000
const timeoutMs = 10_000

interface CacheEntry {
  ids: readonly string[]
  /** When it is asked for again. */
  dueAt: number
}

/**
 * What upstreams list as their models, by the names that their prefixes have in the settings. It is read in the background: nobody
 * waits for it, and who asks first finds none yet.
 */
export class UpstreamModelsCache {
  readonly #clock: Clock
  readonly #entries = new Map<string, CacheEntry>()
  readonly #closing = new AbortController()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The ids that the upstream of a model has listed lately. */
  idsOf(name: string, model: Model): readonly string[] {
    const entry = this.#entries.get(name) ?? { ids: [], dueAt: 0 }
    this.#entries.set(name, entry)
    if (model.list && entry.dueAt <= this.#clock.now()) {
      entry.dueAt = this.#clock.now() + retryAfterMs
      void this.#read(model.list, entry)
    }
    return entry.ids
  }

  /** Ends what is being read. */
  close(): void {
    this.#closing.abort()
  }

  /** What cannot be had is no fault of anybody who waits: the list before stays. */
  async #read(list: NonNullable<Model['list']>, entry: CacheEntry): Promise<void> {
    const tooLate = new AbortController()
    const alarm = this.#clock.setTimeout(() => tooLate.abort(), timeoutMs)
    try {
      entry.ids = await list(AbortSignal.any([tooLate.signal, this.#closing.signal]))
      entry.dueAt = this.#clock.now() + maxAgeMs
    } catch {
      // It is asked for again.
    } finally {
      alarm.close()
    }
  }
}
