import { unixSeconds } from '../time.ts'
import type { AccessStore } from './access.ts'

/** Milliseconds. */
const writeEvery = 60_000

/** Writes down when keys were last let in: all of them at once, a minute after the first, so that no request waits for it. */
export class KeyUses {
  readonly #store: Pick<AccessStore, 'noteUses'>
  #uses = new Map<string, number>()
  #timer: NodeJS.Timeout | undefined

  constructor(store: Pick<AccessStore, 'noteUses'>) {
    this.#store = store
  }

  /** The key with this id was let in now. */
  note(id: string): void {
    this.#uses.set(id, unixSeconds())
    this.#timer ??= setTimeout(() => void this.flush(), writeEvery).unref()
  }

  /** Writes what has not been written yet. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#uses.size === 0) return
    const uses = this.#uses
    this.#uses = new Map()
    // A full disk keeps nobody out: the next use of a key tells again.
    await this.#store.noteUses(uses).catch(() => {})
  }
}
