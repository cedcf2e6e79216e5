import { pipeline, type Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate, createInflateRaw, createZstdDecompress } from 'node:zlib'
import { invalidAnswer } from './errors.ts'
import type { UpstreamAnswer } from './streamless-response.ts'

/** Makes decompressors by content coding (RFC 9110, section 8.4.1), with the first bytes of the answer. */
const decompressors: ReadonlyMap<string, (first: Buffer) => Transform> = new Map<string, (first: Buffer) => Transform>([
  ['gzip', () => createGunzip()],
  ['deflate', (first: Buffer) => (hasZlibHeader(first) ? createInflate() : createInflateRaw())],
  ['br', () => createBrotliDecompress()],
  ['zstd', () => createZstdDecompress()],
])

/**
 * Decompresses an answer: some gateways compress although the request did not ask for it. The answer is decompressed no faster
 * than its reader reads. So the reader's bounds hold for the decompressed bytes.
 * @throws ApiError 502 for an unknown coding
 */
export function decompressed(response: UpstreamAnswer): UpstreamAnswer {
  const coding = String(response.headers['content-encoding'] ?? 'identity')
    .trim()
    .toLowerCase()
    .replace(/^x-/, '')
  if (coding === 'identity' || coding === '') return response
  const decompressor = decompressors.get(coding)
  if (!decompressor) {
    void response.return()
    throw invalidAnswer(new Error('the answer has an unknown content-encoding'))
  }
  return {
    status: response.status,
    headers: response.headers,
    [Symbol.asyncIterator]: () => through(response, decompressor),
    return: () => response.return(),
    drain: () => response.drain(),
  }
}

async function* through(response: UpstreamAnswer, decompressor: (first: Buffer) => Transform): AsyncGenerator<Buffer> {
  const pieces = response[Symbol.asyncIterator]()
  const first = await pieces.next()
  if (first.done) return
  const bytes = decompressor(first.value)
  bytes.write(first.value)
  // `pipeline` destroys the decompressor when the connection fails, and ends the answer when the decompressor's reader stops.
  pipeline(response, bytes, () => {})
  yield* bytes
}

/** Whether bytes begin with the header of zlib (RFC 1950, section 2.2). Some services send `deflate` without it (RFC 9110). */
function hasZlibHeader(bytes: Buffer): boolean {
  return bytes.length < 2 || ((bytes.readUInt8(0) & 0x0f) === 8 && bytes.readUInt16BE(0) % 31 === 0)
}
