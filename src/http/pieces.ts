import { setImmediate } from 'node:timers/promises'

/** Splits bytes into pieces without a copy. Each turn of the event loop gets one piece, so that many readers block no request. */
export async function* piecesOf(bytes: Buffer, pieceBytes: number): AsyncIterable<Buffer> {
  for (let start = 0; start < bytes.length; start += pieceBytes) {
    yield bytes.subarray(start, start + pieceBytes)
    await setImmediate()
  }
}
