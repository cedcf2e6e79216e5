/** A queue without a bound: a callback adds items, and a loop reads them. */
export class Channel<T> implements AsyncIterable<readonly T[]> {
  #items: T[] = []
  #isClosed = false
  #wake: (() => void) | undefined

  push(item: T): void {
    this.#items.push(item)
    this.#wake?.()
  }

  /** Ends the loop after the items that it has not read yet. */
  close(): void {
    this.#isClosed = true
    this.#wake?.()
  }

  /** Yields the items in groups. A group has all items that came since the last read. */
  async *[Symbol.asyncIterator](): AsyncIterator<readonly T[]> {
    while (true) {
      if (this.#items.length > 0) {
        const group = this.#items
        this.#items = []
        yield group
      } else if (this.#isClosed) {
        return
      } else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
      }
    }
  }
}
