import { createHash } from 'node:crypto'
import type { Steps } from '../../work.ts'

/** Bytes that one step hashes: this takes about a millisecond. */
const pieceBytes = 1024 * 1024

/** SHA-256 of a card's bytes, 64 hex digits. */
export function* digestSteps(bytes: Buffer): Steps<string> {
  const digest = createHash('sha256')
  for (let start = 0; start < bytes.length; start += pieceBytes) {
    digest.update(bytes.subarray(start, start + pieceBytes))
    yield pieceBytes >> 4
  }
  return digest.digest('hex')
}
