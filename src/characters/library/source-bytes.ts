import { freeBytes } from '../../bytes.ts'

/** The source of a stored card, which a reader gets in pieces. */
export interface SourceBytes {
  readonly length: number
  /** The pieces in order. They have fewer bytes than `length` if the card is deleted while it is read. */
  readonly pieces: Iterable<Buffer> | AsyncIterable<Buffer>
}

/** All bytes of a source; undefined if the card is deleted while it is read. */
export async function wholeOf({ length, pieces }: SourceBytes): Promise<Buffer | undefined> {
  let whole: Buffer | undefined
  let end = 0
  for await (const piece of pieces) {
    if (piece.length === length) return piece
    // A buffer outside Node's pool: its memory can be freed without garbage collection.
    whole ??= Buffer.allocUnsafeSlow(length)
    end += piece.copy(whole, end)
    freeBytes(piece)
  }
  return end === length ? whole : undefined
}
