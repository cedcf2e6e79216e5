/** The end of an event. */
export const eventEnd = '\n\n'
/** The start of an event's line. */
export const dataPrefix = 'data: '

/** Matches what the service needs from an event. A delta with the text `error` matches too, and is parsed without need. */
const neededByService = /"finish_reason"\s*:\s*[^\sn]|"usage"\s*:\s*\{|"error"/g

/**
 * Finds events that can pass unread: each is one line of `data: {…}` and contains nothing that the service needs. If each event
 * were parsed, a stream of 100 events would cost 51 % more CPU time (docs/performance.md).
 */
export class UnreadPassages {
  readonly #text: string
  readonly #length: number
  /** The index of the next match of `neededByService`. The index is stored, because a search may read the whole text. */
  #limit = -1

  /** @param length the end of the last whole event in the text */
  constructor(text: string, length: number) {
    this.#text = text
    this.#length = length
  }

  /**
   * Finds consecutive whole events that can pass unread.
   * @param start not before the start of an earlier call
   * @returns the index after these events, and their number
   */
  next(start: number): { readonly end: number; readonly events: number } {
    const text = this.#text
    if (this.#limit < start) this.#limit = nextNeeded(text, start)
    let at = start
    let events = 0
    while (at < this.#length) {
      const end = text.indexOf('\n', at)
      const isPlain =
        end < this.#limit &&
        text.charCodeAt(end + 1) === 0x0a &&
        text.charCodeAt(end - 1) === 0x7d &&
        text.charCodeAt(at + dataPrefix.length) === 0x7b &&
        text.startsWith(dataPrefix, at)
      if (!isPlain) break
      at = end + eventEnd.length
      events++
    }
    return { end: at, events }
  }
}

/** The index of the next text that the service needs; the length of the text if there is none. */
function nextNeeded(text: string, start: number): number {
  neededByService.lastIndex = start
  return neededByService.exec(text)?.index ?? text.length
}
