import { setImmediate } from 'node:timers/promises'

/** Bytes in pieces that share their memory, one to a turn of the event loop, so that many readers hold up nobody. */
export async function* piecesOf(bytes: Buffer, pieceBytes: number): AsyncIterable<Buffer> {
  for (let start = 0; start < bytes.length; start += pieceBytes) {
    yield bytes.subarray(start, start + pieceBytes)
    await setImmediate()
  }
}
