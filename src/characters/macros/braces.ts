/** A pair of double braces: where its opening and its closing stand. */
export interface Pair {
  readonly open: number
  readonly close: number
}

const run = /\{{2,}|\}{2,}/g

/**
 * Finds the pairs of double braces, by where they open; braces without a partner are in none. Of three braces in a
 * row the outer one is text. It takes time in proportion to the text, whatever is left open in it.
 * @param most after so many pairs it stops
 */
export function bracePairs(text: string, most = Number.POSITIVE_INFINITY): readonly Pair[] {
  const open: number[] = []
  const pairs: Pair[] = []
  for (const { 0: braces, index } of text.matchAll(run)) {
    if (pairs.length >= most) break
    const start = braces[0] === '{' ? index + (braces.length % 2) : index
    for (let at = start; at + 2 <= index + braces.length; at += 2) {
      if (braces[0] === '{') {
        open.push(at)
        continue
      }
      const partner = open.pop()
      if (partner !== undefined) pairs.push({ open: partner, close: at })
    }
  }
  return pairs.sort((a, b) => a.open - b.open)
}

/** The index of the first pair that opens at this place or later. */
export function firstPairFrom(pairs: readonly Pair[], place: number): number {
  let low = 0
  let high = pairs.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((pairs[middle]?.open ?? 0) < place) low = middle + 1
    else high = middle
  }
  return low
}
