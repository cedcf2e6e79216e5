/** A hash of a text's UTF-16 code units, from 0 to 2^32 - 1 (FNV-1a with MurmurHash3's finalizer). */
export function hashOf(text: string): number {
  return hashAfter(text)('')
}

/** Makes a function that hashes texts with the same beginning. The beginning is read only once. */
export function hashAfter(beginning: string): (rest: string) => number {
  const begun = read(beginning, 0x811c9dc5)
  return (rest) => {
    let hash = read(rest, begun)
    hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
    return (hash ^ (hash >>> 16)) >>> 0
  }
}

function read(text: string, begun: number): number {
  let hash = begun
  for (let index = 0; index < text.length; index += 1) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193)
  return hash
}

/** A fast generator like `Math.random`, seeded with a text (mulberry32). A prompt may need millions of draws for its dice. */
export function fastRandom(text: string): () => number {
  let state = hashOf(text)
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** A generator like `Math.random`, seeded with a text. */
export function seededRandom(text: string): () => number {
  let draws = 0
  return () => hashOf(`${draws++}/${text}`) / 2 ** 32
}
