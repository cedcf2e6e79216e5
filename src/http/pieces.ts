import { setImmediate } from 'node:timers/promises'

/** Splits bytes into pieces without a copy, one in each turn of the event loop: many readers do not block other requests. */
export async function* piecesOf(bytes: Buffer, pieceBytes: number): AsyncIterable<Buffer> {
  for (let start = 0; start < bytes.length; start += pieceBytes) {
    yield bytes.subarray(start, start + pieceBytes)
    await setImmediate()
  }
}
