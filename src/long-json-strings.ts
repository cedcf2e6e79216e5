/** A string with more characters is read in pieces of this length, each in some 0.2 ms. */
export const maxPieceLength = 64 * 1024

const quote = 0x22
const backslash = 0x5c
const letterU = 0x75

/** The position that an error of JSON.parse names; undefined if the error names none. */
export function positionIn(error: unknown): number | undefined {
  const digits = error instanceof Error ? /at position (\d+)/.exec(error.message)?.[1] : undefined
  return digits === undefined ? undefined : Number(digits)
}

/**
 * Reads a long JSON string piece by piece. In one step, JSON.parse would hold the thread for 25 ms with a string of 15 MB, and a
 * search for the end behind escaped quotation marks for even longer.
 */
export class LongJsonString {
  readonly #text: string
  readonly #start: number
  readonly #pieces: string[] = []
  /** The index of the next character to read; at the end, the index after the closing quotation mark. */
  position: number
  /** The whole string; undefined until its end is read. */
  value: string | undefined
  /** The position of a fault; undefined for a string without a fault. */
  fault: number | undefined

  /** @param start the index after the opening quotation mark */
  constructor(text: string, start: number) {
    this.#text = text
    this.#start = start
    this.position = start
  }

  /** Reads the next piece. */
  readPiece(): void {
    const start = this.position
    const end = this.#endOfPiece(start)
    try {
      this.#pieces.push(JSON.parse(`"${this.#text.slice(start, end)}"`))
    } catch (error) {
      this.fault = Math.min(this.#text.length, start - 1 + (positionIn(error) ?? 1))
      return
    }
    if (end >= this.#text.length) this.fault = this.#text.length
    const isEnd = this.#text.charCodeAt(end) === quote
    if (isEnd) this.value = this.#joined(end)
    this.position = isEnd ? end + 1 : end
  }

  /**
   * The whole string. If it is most of the text and has no escape, it is a slice, because to join 10 MB takes 40 ms. A slice keeps
   * the whole text in memory, so a smaller part of the text is copied.
   */
  #joined(end: number): string {
    const length = this.#pieces.reduce((sum, piece) => sum + piece.length, 0)
    const hasEscapes = length < end - this.#start
    return hasEscapes || 2 * length < this.#text.length ? this.#pieces.join('') : this.#text.slice(this.#start, end)
  }

  /** The index of the closing quotation mark, or of the first character after a piece that ends between two escapes. */
  #endOfPiece(start: number): number {
    const text = this.#text
    const limit = Math.min(text.length, start + maxPieceLength)
    const special = text.slice(start, limit).search(/["\\]/)
    if (special === -1) return limit
    let index = start + special
    while (index < limit) {
      const code = text.charCodeAt(index)
      if (code === quote) return index
      index += code !== backslash ? 1 : text.charCodeAt(index + 1) === letterU ? 6 : 2
    }
    return index
  }
}
