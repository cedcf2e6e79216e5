import type { Clock } from '../clock.ts'
import type { Model } from './model.ts'

/** Milliseconds for which a list holds, after which one that could not be had is asked for again, and that an upstream has. */
const holdsMs = 300_000
const againMs = 60_000
const patienceMs = 10_000

interface Kept {
  ids: readonly string[]
  /** When it is asked for again. */
  due: number
}

/**
 * What upstreams list as their models, by the names that their prefixes have in the settings. It is read in the background: nobody
 * waits for it, and who asks first finds none yet.
 */
export class UpstreamLists {
  readonly #clock: Clock
  readonly #kept = new Map<string, Kept>()
  readonly #ending = new AbortController()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The ids that the upstream of a model has listed lately. */
  idsOf(name: string, model: Model): readonly string[] {
    const kept = this.#kept.get(name) ?? { ids: [], due: 0 }
    this.#kept.set(name, kept)
    if (model.list && kept.due <= this.#clock.now()) {
      kept.due = this.#clock.now() + againMs
      void this.#read(model.list, kept)
    }
    return kept.ids
  }

  /** Ends what is being read. */
  close(): void {
    this.#ending.abort()
  }

  /** What cannot be had is no fault of anybody who waits: the list before stays. */
  async #read(list: NonNullable<Model['list']>, kept: Kept): Promise<void> {
    const tooLate = new AbortController()
    const alarm = this.#clock.setTimeout(() => tooLate.abort(), patienceMs)
    try {
      kept.ids = await list(AbortSignal.any([tooLate.signal, this.#ending.signal]))
      kept.due = this.#clock.now() + holdsMs
    } catch {
      // It is asked for again.
    } finally {
      alarm.close()
    }
  }
}
