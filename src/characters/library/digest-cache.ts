/** An LRU cache of what was made from cards, by the digest of their source. Its bytes are bounded. */
export class DigestCache<T> {
  readonly #maxBytes: number
  readonly #bytesOf: (value: T) => number
  readonly #values = new Map<string, T>()
  readonly #loading = new Map<string, Promise<T | undefined>>()
  #bytes = 0

  /** @param maxBytes the bytes of all values; the newest value stays even if it has more */
  constructor(maxBytes: number, bytesOf: (value: T) => number) {
    this.#maxBytes = maxBytes
    this.#bytesOf = bytesOf
  }

  /**
   * The value of this digest, from the cache or from `load`; undefined is not kept. Concurrent requests of one account share one
   * load. Accounts do not share loads: a request would wait in another account's queue.
   */
  get(
    account: number | null,
    digest: string,
    load: () => Promise<T | undefined>,
  ): T | undefined | Promise<T | undefined> {
    const kept = this.#values.get(digest)
    if (kept !== undefined) {
      // The map's order is the order of use.
      this.#values.delete(digest)
      this.#values.set(digest, kept)
      return kept
    }
    const key = `${account}/${digest}`
    const underWay = this.#loading.get(key)
    if (underWay) return underWay
    const loading = load()
      .then((value) => value && this.add(digest, value))
      .finally(() => this.#loading.delete(key))
    this.#loading.set(key, loading)
    return loading
  }

  /** Adds a value that was made already. @returns the cached value of this digest: an earlier one if there was one */
  add(digest: string, value: T): T {
    const kept = this.#values.get(digest)
    if (kept !== undefined) return kept
    this.#values.set(digest, value)
    this.#bytes += this.#bytesOf(value)
    for (const [oldest, old] of this.#values) {
      if (this.#bytes <= this.#maxBytes || oldest === digest) break
      this.#values.delete(oldest)
      this.#bytes -= this.#bytesOf(old)
    }
    return value
  }
}
