import type { Clock } from '../clock.ts'
import type { Model } from './model.ts'

/** When a list is this old, it is read again. The other values are the pause after a failed read, and the timeout of a read. */
const maxAgeMs = 300_000
const retryAfterMs = 60_000
const timeoutMs = 10_000
/** The most time that requests wait for the first list, so that a menu of models is whole after a start. */
const maxFirstWaitMs = 2000

interface CacheEntry {
  ids: readonly string[]
  /** The time, in milliseconds of the clock, after which the next use of the list reads it again. */
  dueAt: number
  /** Resolves when the first read ends, or after `maxFirstWaitMs`. */
  first?: Promise<void>
}

/**
 * Caches the lists of models of upstreams, by the names of their prefixes in the settings. Requests wait for the first read of a
 * list. Later reads are done in the background.
 */
export class UpstreamModelsCache {
  readonly #clock: Clock
  readonly #entries = new Map<string, CacheEntry>()
  readonly #closing = new AbortController()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * The ids in the last list of the model's upstream; none if the first read has failed, or takes too long. If the list is too
   * old, starts to read it again.
   */
  async idsOf(name: string, model: Model): Promise<readonly string[]> {
    const entry: CacheEntry = this.#entries.get(name) ?? { ids: [], dueAt: 0 }
    this.#entries.set(name, entry)
    if (model.list && entry.dueAt <= this.#clock.now()) {
      entry.dueAt = this.#clock.now() + retryAfterMs
      const reading = this.#read(model.list, entry)
      entry.first ??= this.#atMost(maxFirstWaitMs, reading)
    }
    await entry.first
    return entry.ids
  }

  /** Aborts reads in flight. */
  close(): void {
    this.#closing.abort()
  }

  /** Resolves with a promise, or after some milliseconds. */
  #atMost(milliseconds: number, promise: Promise<void>): Promise<void> {
    const { promise: waited, resolve } = Promise.withResolvers<void>()
    const timer = this.#clock.setTimeout(resolve, milliseconds)
    return Promise.race([promise, waited]).finally(() => timer.close())
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
