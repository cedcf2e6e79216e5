import { freeBytes } from '../../http/body.ts'

/** The source of a stored card: whoever reads it has one piece of it at a time. */
export interface SourceBytes {
  readonly length: number
  /** In order. Fewer bytes than `length` come where the card is deleted meanwhile. */
  readonly pieces: Iterable<Buffer> | AsyncIterable<Buffer>
}

/** All bytes of a source together; undefined where it is deleted meanwhile. */
export async function wholeOf({ length, pieces }: SourceBytes): Promise<Buffer | undefined> {
  let whole: Buffer | undefined
  let end = 0
  for await (const piece of pieces) {
    if (piece.length === length) return piece
    // A place of its own, which can be given back at once.
    whole ??= Buffer.allocUnsafeSlow(length)
    end += piece.copy(whole, end)
    freeBytes(piece)
  }
  return end === length ? whole : undefined
}
