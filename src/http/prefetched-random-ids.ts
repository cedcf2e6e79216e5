import { randomFillSync } from 'node:crypto'

/** The number of ids whose bytes are drawn together. */
const idsPerDraw = 256

/**
 * Random ids as hex texts. The bytes of 256 ids are drawn from the machine together, and no byte is used twice. If the bytes of
 * each id were drawn alone, a cached page would cost 1.2 % more CPU time (bench/figures.md).
 */
export class PrefetchedRandomIds {
  readonly #idBytes: number
  readonly #draw: (bytes: Buffer) => void
  readonly #pool: Buffer
  #used: number

  /** @param draw fills a buffer with random bytes */
  constructor(idBytes: number, draw: (bytes: Buffer) => void = randomFillSync) {
    this.#idBytes = idBytes
    this.#draw = draw
    this.#pool = Buffer.alloc(idsPerDraw * idBytes)
    this.#used = this.#pool.length
  }

  /** A new id. */
  next(): string {
    if (this.#used === this.#pool.length) {
      this.#draw(this.#pool)
      this.#used = 0
    }
    this.#used += this.#idBytes
    return this.#pool.toString('hex', this.#used - this.#idBytes, this.#used)
  }
}
