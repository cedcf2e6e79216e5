import { unixSeconds } from '../time.ts'
import type { CharacterStore, VersionKey } from './library/character.ts'
import { dayBegin } from './policy.ts'

/** Milliseconds. */
const writeEvery = 60_000
/** Versions that are written at once. */
const batch = 500
/** Versions that are remembered as noted today before they are forgotten, and noted once more. */
const maxRememberedVersions = 100_000

/**
 * Writes down which versions of uploaded characters are used: each once a day, all of them at once, a minute after the
 * first, so that no request waits for it.
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

  /** This version was used now. */
  note(version: VersionKey): void {
    const today = dayBegin(this.#now())
    if (today !== this.#day || this.#noted.size >= maxRememberedVersions) this.#noted.clear()
    this.#day = today
    const { account, digest, name } = version
    const key = `${account} ${digest} ${name}`
    if (this.#noted.has(key)) return
    this.#noted.add(key)
    this.#waiting.push({ account, name, digest })
    this.#timer ??= setTimeout(() => void this.flush(), writeEvery).unref()
  }

  /** Writes what has not been written yet. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const versions = this.#waiting
    this.#waiting = []
    for (let begin = 0; begin < versions.length; begin += batch) {
      // A full disk keeps nobody out: the next use of a version tells again.
      await this.#store.noteUses(versions.slice(begin, begin + batch), this.#now()).catch(() => this.#noted.clear())
    }
  }
}
