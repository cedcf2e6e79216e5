import { freeBytes, lengthOf } from '../bytes.ts'

/** The size of a block of an incomplete body. */
const blockBytes = 1024 ** 2

/**
 * Collects the pieces of a body in blocks of a megabyte, so that a piece of one byte costs one byte. When a quarter of the
 * announced bytes has arrived, and at least a megabyte, one block for all announced bytes replaces the blocks. The system
 * assigns the memory of this block only when bytes are written to it, so bytes that never arrive cost nothing. Each old block is
 * freed as soon as it is copied, so a large body is in memory only once.
 */
export class GrowingBytes {
  readonly #announced: number
  readonly #full: Buffer[] = []
  #block: Buffer = Buffer.alloc(0)
  /** Used bytes of the last block. */
  #used = 0

  /** @param announced the bytes of `Content-Length`; NaN without this header */
  constructor(announced: number, first: Buffer, second: Buffer) {
    this.#announced = announced
    this.#append(first, second.length)
    this.#append(second, 0)
  }

  add(piece: Buffer): void {
    this.#append(piece, 0)
  }

  bytes(): Buffer {
    const last = this.#block.subarray(0, this.#used)
    if (this.#full.length === 0) return last
    this.#full.push(last)
    return this.#join(lengthOf(this.#full))
  }

  /** Frees the memory at once. */
  free(): void {
    for (const block of [...this.#full.splice(0), this.#block]) freeBytes(block)
  }

  /** @param more the number of bytes that the next call appends, so that a new block has room for them */
  #append(piece: Buffer, more: number): void {
    for (let start = 0; start < piece.length; ) {
      if (this.#used === this.#block.length) this.#addBlock(piece.length - start + more)
      const copied = piece.copy(this.#block, this.#used, start)
      this.#used += copied
      start += copied
    }
    freeBytes(piece)
  }

  /** Adds a block of up to a megabyte, or the final block for all announced bytes. */
  #addBlock(needed: number): void {
    if (this.#used > 0) this.#full.push(this.#block)
    const received = lengthOf(this.#full)
    if (received >= blockBytes && received >= this.#announced / 4) {
      this.#block = this.#join(this.#announced)
      this.#used = received
      return
    }
    const left = this.#announced - received || 2 * received
    this.#block = Buffer.allocUnsafeSlow(Math.min(blockBytes, Math.max(needed, left)))
    this.#used = 0
  }

  /** Copies the full blocks into one block of `length` bytes, and frees each as soon as it is copied. */
  #join(length: number): Buffer {
    const whole = Buffer.allocUnsafeSlow(length)
    let end = 0
    for (const block of this.#full.splice(0)) {
      end += block.copy(whole, end)
      freeBytes(block)
    }
    return whole
  }
}
