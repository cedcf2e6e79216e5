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
    // A card in pieces is large, so a worker reads it, and gets it without a copy.
    whole ??= Buffer.from(new SharedArrayBuffer(length))
    end += piece.copy(whole, end)
  }
  return end === length ? whole : undefined
}
