import { brotliCompressSync, createGzip, deflateSync, gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { readChatError, readCompletion, readStream, textOfStream } from '../support/chat.ts'
import { completion, json, type Script, streamOf } from '../support/upstream.ts'
import { post, upstream, upstreamServiceForThisFile } from '../support/upstream-service.ts'

upstreamServiceForThisFile()

const megabyte = 1024 ** 2

/** Answers with these bytes and their content-encoding. */
const packed =
  (bytes: Uint8Array, coding = 'gzip', status = 200): Script =>
  (response) => {
    response.writeHead(status, { 'content-type': 'application/json', 'content-encoding': coding }).end(bytes)
  }
const hello = Buffer.from(JSON.stringify(completion('Hello.')))

describe('a compressed answer that was not requested', () => {
  test.each<[string, Buffer, string]>([
    ['gzip', gzipSync(hello), 'gzip'],
    ['gzip in capitals', gzipSync(hello), 'GZIP'],
    ['gzip by its older name', gzipSync(hello), 'x-gzip'],
    ['deflate', deflateSync(hello), 'deflate'],
    ['Brotli', brotliCompressSync(hello), 'br'],
    ['not at all', hello, 'identity'],
  ])('is read: %s', async (_what, bytes, coding) => {
    upstream.answer(packed(bytes, coding))
    const response = await post()
    expect([response.status, response.headers.get('content-encoding')]).toEqual([200, null])
    expect((await readCompletion(response)).choices[0]?.message.content).toBe('Hello.')
    expect(upstream.calls[0]?.headers).not.toHaveProperty('accept-encoding')
  })

  test('is read if it is an error', async () => {
    const error = { error: { message: 'The grammar is not valid.', code: 'bad_grammar' } }
    upstream.answer(packed(gzipSync(JSON.stringify(error)), 'gzip', 400))
    const response = await post()
    expect(response.status).toBe(400)
    expect(await readChatError(response)).toMatchObject({ code: 'bad_grammar', message: 'The grammar is not valid.' })
  })

  test('arrives event by event, and its connection is used again', async () => {
    const ports = new Set<number | undefined>()
    let sendRest = () => {}
    upstream.answer((response) => {
      ports.add(response.socket?.remotePort)
      response.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' })
      const pack = createGzip()
      pack.pipe(response)
      const [first = '', ...rest] = streamOf('one two')
      pack.write(first)
      pack.flush()
      sendRest = () => pack.end(rest.join(''))
    })
    for (let round = 0; round < 2; round++) {
      // The reply begins before the upstream sends the rest, so the first event was unpacked alone.
      const response = await post({ stream: true })
      expect(response.status).toBe(200)
      sendRest()
      const streamed = await readStream(response)
      expect([textOfStream(streamed), streamed.isDone, streamed.errors]).toEqual(['one two', true, []])
    }
    expect(ports.size).toBe(1)
  })

  const large = JSON.stringify(completion('a'.repeat(17 * megabyte)))
  test.each<[string, boolean, Script, RegExp]>([
    ['unpacks to 17 MB', false, packed(gzipSync(large)), /more at once/],
    ['unpacks to an event of 17 MB', true, packed(gzipSync(`data: ${large}`)), /more at once/],
    ['unpacks to 4 GB', false, packed(bomb()), /more at once/],
    ['is cut', false, packed(gzipSync(hello).subarray(0, -12)), /broke off/],
    ['is not packed at all', false, packed(hello), /broke off/],
    ['has an unknown encoding', false, packed(hello, 'compress'), /not understood/],
    ['is packed twice', false, packed(gzipSync(gzipSync(hello)), 'gzip, gzip'), /not understood/],
  ])('is a 502 if it %s', async (_what, stream, script, message) => {
    upstream.answer(script)
    const response = await post({ stream })
    expect(response.status).toBe(502)
    expect((await readChatError(response)).message).toMatch(message)
    upstream.answer(json(completion('Hello.')))
    expect((await post()).status).toBe(200)
  })
})

/** Some 4 MB that decompress to 4 GB: a gzip file may have several members (RFC 1952, section 2.2). */
function bomb(): Buffer {
  const part = gzipSync(Buffer.alloc(64 * megabyte))
  return Buffer.concat(Array.from({ length: 64 }, () => part))
}
