const quote = 0x22
const backslash = 0x5c

/** Characters of a string that are looked at one by one: the engine copies so few, and keeps a longer one as a view of the text. */
const shortString = 12
/** Characters of a text that views may keep. */
const shortText = 4096

/**
 * Where a short JSON string without an escape ends, which needs no parser. Where JSON.parse reads these too, reading a card
 * with 1,000 lore entries takes 14 % more CPU time (docs/performance.md).
 * @param start behind the quotation mark that opens it
 * @returns the index of the quotation mark that closes it; undefined for any other string
 */
export function endOfShortString(text: string, start: number): number | undefined {
  const last = start + (text.length <= shortText ? shortText : shortString)
  for (let index = start; index <= last; index++) {
    const code = text.charCodeAt(index)
    if (code === quote) return index
    // An escape, a control character, which is a fault, or NaN, the end.
    if (!(code >= 0x20) || code === backslash) return undefined
  }
  return undefined
}
