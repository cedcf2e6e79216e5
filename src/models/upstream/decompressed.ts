import { pipeline, type Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import { invalidAnswer } from './errors.ts'
import type { UpstreamAnswer } from './streamless-response.ts'

/** Decompressors by content coding (RFC 9110, section 8.4.1). */
const decompressors: ReadonlyMap<string, () => Transform> = new Map<string, () => Transform>([
  ['gzip', createGunzip],
  ['deflate', createInflate],
  ['br', createBrotliDecompress],
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
  const createDecompressor = decompressors.get(coding)
  if (!createDecompressor) {
    void response.return()
    throw invalidAnswer(new Error('the answer has an unknown content-encoding'))
  }
  const decompressor = createDecompressor()
  // `pipeline` destroys the decompressor when the connection fails, and ends the answer when the decompressor's reader stops.
  pipeline(response, decompressor, () => {})
  return {
    status: response.status,
    headers: response.headers,
    [Symbol.asyncIterator]: () => decompressor[Symbol.asyncIterator](),
    return: () => response.return(),
    drain() {
      response.drain()
      decompressor.destroy()
    },
  }
}
