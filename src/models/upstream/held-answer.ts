import { type HeldBytes, smallBytes } from '../../http/bytes-in-flight.ts'

/** The bytes of an answer that wait in memory. They are counted only if they are many, because most answers are small. */
export class HeldAnswer implements Disposable {
  readonly #open: (() => HeldBytes | undefined) | undefined
  #held: HeldBytes | undefined

  /** @param open opens a count of bytes; undefined to count none */
  constructor(open: (() => HeldBytes | undefined) | undefined) {
    this.#open = open
  }

  /** @param bytes all bytes that wait now @throws ApiError 503 when too many bytes are in flight */
  set(bytes: number): void {
    if (bytes > smallBytes) this.#held ??= this.#open?.()
    this.#held?.set(bytes)
  }

  [Symbol.dispose](): void {
    this.#held?.release()
  }
}
