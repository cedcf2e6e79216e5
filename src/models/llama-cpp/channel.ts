/** A queue from a callback to a loop. Its length has no bound. */
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

  /** Yields the items in groups: all items since the last read are one group. */
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
