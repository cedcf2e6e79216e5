import { pipeline, type Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import type { UpstreamAnswer } from './connections.ts'
import { notUnderstood } from './errors.ts'

/** What undoes a content coding (RFC 9110, section 8.4.1). */
const decompressors: ReadonlyMap<string, () => Transform> = new Map<string, () => Transform>([
  ['gzip', createGunzip],
  ['deflate', createInflate],
  ['br', createBrotliDecompress],
])

/**
 * The answer as it was before it was packed: some gateways pack what nobody asked them to. It is unpacked no faster than it
 * is read, so that its reader's bounds hold for what it becomes.
 * @throws ApiError 502 for a coding that nobody here knows
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
    throw notUnderstood(new Error('the answer is packed in a way that is not known here'))
  }
  const decompressor = createDecompressor()
  // It fails with the connection, and ends the answer when nobody reads it any more.
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
