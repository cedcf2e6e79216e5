import { unixSeconds } from '../time.ts'
import type { CharacterStore, VersionKey } from './library/character.ts'
import { dayBegin } from './policy.ts'

/** Milliseconds from the first unwritten use until the write. */
const writeDelayMs = 60_000
/** The most versions of one write. */
const batchSize = 500
/** The most versions that are remembered as recorded today. At this number all are forgotten, and a use may be recorded again. */
const maxRememberedVersions = 100_000

/**
 * Records which versions of uploaded characters are used, each version once a day. The uses of a minute are written together in
 * the background, so that no request waits for the write.
 */
export class CharacterUses {
  readonly #store: Pick<CharacterStore, 'noteUses'>
  readonly #now: () => number
  #day = 0
  readonly #noted = new Set<string>()
  #waiting: VersionKey[] = []
  #timer: NodeJS.Timeout | undefined

  /** @param now Unix seconds */
  constructor(store: Pick<CharacterStore, 'noteUses'>, now: () => number = unixSeconds) {
    this.#store = store
    this.#now = now
  }

  /** Records that a version is used now. */
  note(version: VersionKey): void {
    const today = dayBegin(this.#now())
    if (today !== this.#day || this.#noted.size >= maxRememberedVersions) this.#noted.clear()
    this.#day = today
    const { account, digest, name } = version
    const key = `${account} ${digest} ${name}`
    if (this.#noted.has(key)) return
    this.#noted.add(key)
    this.#waiting.push({ account, name, digest })
    this.#timer ??= setTimeout(() => void this.flush(), writeDelayMs).unref()
  }

  /** Writes the pending records. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const versions = this.#waiting
    this.#waiting = []
    for (let begin = 0; begin < versions.length; begin += batchSize) {
      // A failed write, for example on a full disk, does not disturb chats. The next use of each version is recorded again.
      await this.#store.noteUses(versions.slice(begin, begin + batchSize), this.#now()).catch(() => this.#noted.clear())
    }
  }
}
