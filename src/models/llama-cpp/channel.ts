/** Carries what a callback is told to a loop. It holds whatever the loop has not taken yet. */
export class Channel<T> implements AsyncIterable<readonly T[]> {
  #items: T[] = []
  #isClosed = false
  #wake: (() => void) | undefined

  push(item: T): void {
    this.#items.push(item)
    this.#wake?.()
  }

  /** Ends the loop once it has everything. */
  close(): void {
    this.#isClosed = true
    this.#wake?.()
  }

  /** Gives the items in groups that came together. */
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
