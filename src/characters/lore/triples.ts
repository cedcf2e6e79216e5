/** Which triples of characters a text must have for this key to occur in it, by their hash; none for a short key. */
export function marksOf(lower: string): readonly number[] {
  const last = lower.length - 3
  if (last < 0) return []
  // Keys of one book often begin alike (`place 7`, `place 8`), so that their ends and middles say more.
  const places = new Set([last, 0, (last + 1) >> 1])
  return [...places].map((at) => tripleHash(lower.charCodeAt(at), lower.charCodeAt(at + 1), lower.charCodeAt(at + 2)))
}

/** A number for three characters that follow one another. Letters of one alphabet differ in their lowest five bits. */
export function tripleHash(first: number, second: number, third: number): number {
  return (first << 10) ^ (second << 5) ^ third ^ (third >>> 5)
}
