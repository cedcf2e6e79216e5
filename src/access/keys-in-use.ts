import { unixSeconds } from '../time.ts'
import type { AccessStore, Key } from './access.ts'
import { refusalOf } from './refusals.ts'

const checkIntervalMs = 250

/**
 * Aborts the in-flight requests of a key soon after the key has ended: by a command, by a request, by its expiry, or by the
 * suspension of its account. A key is checked only while it has in-flight requests, and once for all of them.
 */
export class KeyWatch {
  readonly #store: Pick<AccessStore, 'findKeyById'>
  readonly #open = new Map<string, Set<AbortController>>()
  #timer: NodeJS.Timeout | undefined

  constructor(store: Pick<AccessStore, 'findKeyById'>) {
    this.#store = store
  }

  /**
   * Aborts the controller when the key ends, with the `ApiError` of the reason.
   * @returns a function to call when the request is over
   */
  add(key: Key, controller: AbortController): () => void {
    const open = this.#open.get(key.id) ?? new Set()
    this.#open.set(key.id, open.add(controller))
    this.#timer ??= setInterval(() => this.#checkAll(), checkIntervalMs).unref()
    return () => {
      open.delete(controller)
    }
  }

  #checkAll(): void {
    for (const [id, open] of this.#open) {
      if (open.size === 0) this.#open.delete(id)
      else this.#check(id, open)
    }
    // The timer stops here and not at the end of the last request, so that a sequence of quick requests shares one timer.
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
      // When the database does not answer, the next check tries again.
      () => {},
    )
  }
}

const writeIntervalMs = 60_000

/** The most keys of one write, which is one transaction. */
const batchSize = 500

/** Writes when keys were last used, a minute after the first use. So no request waits for the write. */
export class KeyUses {
  readonly #store: Pick<AccessStore, 'noteUses'>
  #uses = new Map<string, number>()
  #timer: NodeJS.Timeout | undefined
  /** Resolves when all earlier writes have ended. */
  #writing = Promise.resolve()

  constructor(store: Pick<AccessStore, 'noteUses'>) {
    this.#store = store
  }

  /** Notes that the key with this id is used now. */
  note(id: string): void {
    this.#uses.set(id, unixSeconds())
    this.#timer ??= setTimeout(() => void this.flush(), writeIntervalMs).unref()
  }

  /** Writes the uses that are not written yet. */
  flush(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const uses = [...this.#uses]
    this.#uses = new Map()
    this.#writing = this.#writing.then(() => this.#write(uses))
    return this.#writing
  }

  async #write(uses: readonly (readonly [id: string, moment: number])[]): Promise<void> {
    for (let begin = 0; begin < uses.length; begin += batchSize) {
      // A failed write, for example on a full disk, must not refuse requests. The next use of a key is noted again.
      await this.#store.noteUses(new Map(uses.slice(begin, begin + batchSize))).catch(() => {})
    }
  }
}
