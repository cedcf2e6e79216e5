/** A number from 0 to 2^32 - 1 that looks random and is always the same for the same text (FNV-1a, finished by Murmur's mix). */
export function hashOf(text: string): number {
  let hash = 0x811c9dc5
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193)
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}

/** Draws like `Math.random`, and always the same for the same text. */
export function seededRandom(text: string): () => number {
  let draws = 0
  return () => hashOf(`${draws++}/${text}`) / 2 ** 32
}
