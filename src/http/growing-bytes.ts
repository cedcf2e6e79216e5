import { freeBytes, lengthOf } from '../bytes.ts'
import { bytesOfPart } from './body-pace.ts'

/** The size of a block of an incomplete body. */
const blockBytes = 1024 ** 2

const noBytes = Buffer.alloc(0)

/**
 * Collects the pieces of a body. Most bodies arrive in one piece, which is not copied. Other pieces are copied to blocks of a
 * megabyte, so that a piece of one byte costs one byte. When a quarter of the announced bytes has arrived, and at least a
 * megabyte, the next block has room for all announced bytes, and the bytes of the old blocks are moved to it. The system
 * assigns the memory of this block only when bytes are written to it, so bytes that never arrive cost nothing. Each old block
 * is freed as soon as it is moved, so a large body is in memory only once.
 *
 * To move a megabyte takes 0.3 ms, and more than 4 ms where memory is slow when it is used for the first time. So the owner moves
 * the blocks in small parts: one part with each piece, and the rest after the end of the body.
 */
export class GrowingBytes {
  readonly #announced: number
  /** The first piece, until the second arrives. */
  #only: Buffer | undefined
  readonly #full: Buffer[] = []
  #block: Buffer = noBytes
  /** Used bytes of the last block. */
  #used = 0
  /** Old blocks that are moved to the beginning of the last block. */
  #old: Buffer[] = []
  /** Bytes that were moved to the last block. */
  #moved = 0
  /** Bytes of the first old block that were moved. */
  #movedOfFirst = 0

  /** @param announced the bytes of `Content-Length`; NaN without this header */
  constructor(announced: number) {
    this.#announced = announced
  }

  /** Takes a piece, which is freed or becomes a block. */
  add(piece: Buffer): void {
    if (this.#only) {
      const first = this.#only
      this.#only = undefined
      this.#append(first, piece.length)
    } else if (this.#block.length === 0) {
      this.#only = piece
      return
    }
    this.#append(piece, 0)
  }

  /** Is called after the last piece. Then all blocks can be moved to one block. */
  end(): void {
    if (this.#full.length === 0) return
    this.#full.push(this.#block.subarray(0, this.#used))
    this.#gather(lengthOf(this.#full))
  }

  /** Moves up to 64 KiB of old blocks. @returns the number of moved bytes: zero if no block has to be moved now */
  move(): number {
    const [first] = this.#old
    if (!first) return 0
    const start = this.#movedOfFirst
    const count = first.copy(this.#block, this.#moved, start, Math.min(first.length, start + bytesOfPart))
    this.#moved += count
    this.#movedOfFirst += count
    if (this.#movedOfFirst === first.length) {
      this.#old.shift()
      this.#movedOfFirst = 0
      freeBytes(first)
    }
    return count
  }

  /** The whole body, when it has ended and all blocks are moved. */
  bytes(): Buffer {
    return this.#only ?? this.#block.subarray(0, this.#used)
  }

  /** Frees the memory at once. */
  free(): void {
    for (const block of [...this.#full.splice(0), ...this.#old.splice(0), this.bytes()]) freeBytes(block)
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
      this.#gather(this.#announced)
      return
    }
    const left = this.#announced - received || 2 * received
    this.#block = Buffer.allocUnsafeSlow(Math.min(blockBytes, Math.max(needed, left)))
    this.#used = 0
  }

  /** Makes the last block, with room for the bytes of all full blocks at its beginning. */
  #gather(length: number): void {
    this.#used = lengthOf(this.#full)
    this.#block = Buffer.allocUnsafeSlow(length)
    this.#old = this.#full.splice(0)
  }
}
