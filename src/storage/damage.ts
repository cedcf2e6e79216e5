import { isDamage } from '../errors.ts'

/** What an operator does about a damaged database, as a sentence of the log, or the end of one. */
export const damageSentence =
  'The database is damaged. Stop the service, and restore a backup: see Damage in docs/operations.md.'

/** Remembers that the database was found damaged, until the process ends: what it answers is not to be trusted any more. */
export class Damage {
  readonly #tell: (error: unknown) => void
  #isFound = false

  /** @param tell is told once, with what the database said */
  constructor(tell: (error: unknown) => void = () => {}) {
    this.#tell = tell
  }

  get isFound(): boolean {
    return this.#isFound
  }

  /** Looks whether an error tells of damage. @returns whether it does */
  note(error: unknown): boolean {
    if (!isDamage(error)) return false
    if (!this.#isFound) this.#tell(error)
    this.#isFound = true
    return true
  }

  /** The same store; whatever its methods throw or reject with, or an iterable of theirs ends with, is looked at. */
  watch<T extends object>(store: T): T {
    const proxy = new Proxy(store, {
      get: (target, name, watched) => {
        // From the store itself: the private fields of its class are not the proxy's.
        const value: unknown = Reflect.get(target, name)
        if (typeof value !== 'function') return value
        const method = (...parameters: unknown[]) => {
          try {
            return this.#watchResult(Reflect.apply(value, target, parameters))
          } catch (error) {
            this.note(error)
            throw error
          }
        }
        // From now on it is found before the proxy is asked, which takes as long as many a method.
        Object.defineProperty(watched, name, { value: method, writable: true, configurable: true })
        return method
      },
    })
    return Object.create(proxy)
  }

  readonly #onRejected = (error: unknown) => {
    this.note(error)
  }

  #watchResult(result: unknown): unknown {
    if (result instanceof Promise) {
      void result.then(undefined, this.#onRejected)
      return result
    }
    return isIterable(result) ? this.#each(result) : result
  }

  async *#each(items: AsyncIterable<unknown>): AsyncIterable<unknown> {
    try {
      yield* items
    } catch (error) {
      this.note(error)
      throw error
    }
  }
}

function isIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value
}
