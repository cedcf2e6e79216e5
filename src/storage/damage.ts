import { isDamage } from '../errors.ts'

/** What the operator should do about a damaged database, for log lines. */
export const damageSentence =
  'The database is damaged. Stop the service, and restore a backup: see Damage in docs/operations.md.'

/** Records that the database is damaged. The record stays until the process ends, because no later answer can be trusted. */
export class Damage {
  readonly #tell: (error: unknown) => void
  #isFound = false

  /** @param tell is called once, with the first error that shows damage */
  constructor(tell: (error: unknown) => void = () => {}) {
    this.#tell = tell
  }

  get isFound(): boolean {
    return this.#isFound
  }

  /** Records the damage if an error shows it. @returns whether the error shows damage */
  note(error: unknown): boolean {
    if (!isDamage(error)) return false
    if (!this.#isFound) this.#tell(error)
    this.#isFound = true
    return true
  }

  /**
   * Makes a proxy of a store. The proxy calls `note` with each error that a method of the store throws, and with each error of a
   * promise or an iterable that a method returns.
   */
  watch<T extends object>(store: T): T {
    const proxy = new Proxy(store, {
      get: (target, name, watched) => {
        // The value is read from the store itself, because the proxy does not have the private fields of the store's class.
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
        // The next call finds the method on the returned object, and does not run this trap, which is as slow as some methods.
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
