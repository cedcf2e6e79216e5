import { createServer } from 'node:http'
import fc from 'fast-check'
import { request } from 'undici'
import { expect, it, onTestFinished } from 'vitest'
import { UpstreamConnections } from '../../../src/models/upstream/connections.ts'

it('gives the same bytes of an answer as a stream of undici, in whatever pieces the bytes arrive', async () => {
  let pieces: readonly Uint8Array[] = []
  const server = createServer(async (_request, response) => {
    for (const piece of pieces) await new Promise((resolve) => response.write(piece, resolve))
    response.end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  const url = `http://127.0.0.1:${port}`
  const connections = new UpstreamConnections(url, 1000)
  onTestFinished(async () => {
    await connections.close()
    server.closeAllConnections()
    server.close()
  })
  await fc.assert(
    fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 5000 }), { maxLength: 8 }), async (sent) => {
      pieces = sent
      const answer = await connections.get('/', {}, new AbortController().signal)
      const found: Buffer[] = []
      for await (const piece of answer) found.push(piece)
      const { body } = await request(url)
      expect(Buffer.concat(found)).toEqual(Buffer.from(await body.arrayBuffer()))
    }),
    { numRuns: 30 },
  )
})
