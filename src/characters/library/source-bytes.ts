import { freeBytes } from '../../http/body.ts'

/** The source of a stored card, which a reader gets in pieces. */
export interface SourceBytes {
  readonly length: number
  /** The pieces in order; fewer bytes than `length` when the card is deleted meanwhile. */
  readonly pieces: Iterable<Buffer> | AsyncIterable<Buffer>
}

/** All bytes of a source; undefined when the card is deleted meanwhile. */
export async function wholeOf({ length, pieces }: SourceBytes): Promise<Buffer | undefined> {
  let whole: Buffer | undefined
  let end = 0
  for await (const piece of pieces) {
    if (piece.length === length) return piece
    // A buffer outside Node's pool, whose memory can be freed at once.
    whole ??= Buffer.allocUnsafeSlow(length)
    end += piece.copy(whole, end)
    freeBytes(piece)
  }
  return end === length ? whole : undefined
}
