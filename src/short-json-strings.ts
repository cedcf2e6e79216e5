const quote = 0x22
const backslash = 0x5c

/** Strings up to this length are sliced from any text, because V8 copies them. A longer slice keeps the whole text in memory. */
const shortString = 12
/** From a text up to this length, longer slices are allowed too: they keep little memory. */
const shortText = 4096

/**
 * Finds the end of a short JSON string without escapes. Such a string needs no parser. If JSON.parse read these strings, a card
 * with 1,000 lore entries would take 14 % more CPU time (docs/performance.md).
 * @param start the index after the opening quotation mark
 * @returns the index of the closing quotation mark; undefined for any other string
 */
export function endOfShortString(text: string, start: number): number | undefined {
  const last = start + (text.length <= shortText ? shortText : shortString)
  for (let index = start; index <= last; index++) {
    const code = text.charCodeAt(index)
    if (code === quote) return index
    // The character is an escape, a control character (a fault), or NaN (the end of the text).
    if (!(code >= 0x20) || code === backslash) return undefined
  }
  return undefined
}
