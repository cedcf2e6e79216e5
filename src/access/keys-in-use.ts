import { unixSeconds } from '../time.ts'
import type { AccessStore, Key } from './access.ts'
import { refusalOf } from './refusals.ts'

/** Milliseconds between two looks at the keys of what is under way. */
const lookEvery = 250

/**
 * Ends what is under way with a key soon after the key ends, whoever ended it: a command beside the service, a request,
 * the clock, or the suspension of its account. It looks only while something is under way, and once for each key.
 */
export class KeyWatch {
  readonly #store: Pick<AccessStore, 'findKeyById'>
  readonly #open = new Map<string, Set<AbortController>>()
  #timer: NodeJS.Timeout | undefined

  constructor(store: Pick<AccessStore, 'findKeyById'>) {
    this.#store = store
  }

  /**
   * Aborts the controller when the key ends, with the `ApiError` that says why.
   * @returns what to call when it is over
   */
  add(key: Key, controller: AbortController): () => void {
    const open = this.#open.get(key.id) ?? new Set()
    this.#open.set(key.id, open.add(controller))
    this.#timer ??= setInterval(() => this.#look(), lookEvery).unref()
    return () => {
      open.delete(controller)
    }
  }

  #look(): void {
    for (const [id, open] of this.#open) {
      if (open.size === 0) this.#open.delete(id)
      else this.#check(id, open)
    }
    // Stopped here and not with the last reply, so that quick replies one after the other share a timer.
    if (this.#open.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #check(id: string, open: ReadonlySet<AbortController>): void {
    this.#store.findKeyById(id).then(
      (key) => {
        const refusal = refusalOf(key)
        if (refusal) for (const controller of open) controller.abort(refusal)
      },
      // A database that does not answer says nothing about a key: the next look will.
      () => {},
    )
  }
}

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
