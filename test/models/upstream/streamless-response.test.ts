import { createServer, type RequestListener } from 'node:http'
import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import { request } from 'undici'
import { expect, it, onTestFinished } from 'vitest'
import { UpstreamConnections } from '../../../src/models/upstream/connections.ts'
import { TestClock } from '../../support/clock.ts'

/** Starts a server, and opens connections to it. */
async function connectionsForThisTest(answer: RequestListener) {
  const server = createServer(answer)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  const url = `http://127.0.0.1:${port}`
  // The clock stands still, so no answer is aborted because it takes too long.
  const clock = new TestClock()
  const connections = new UpstreamConnections(url, 1000, clock)
  onTestFinished(async () => {
    await connections.close()
    server.closeAllConnections()
    server.close()
  })
  return { server, url, connections, clock }
}

it('an answer has the same bytes as in the stream that undici makes of it, in whatever pieces the bytes arrive', async () => {
  let pieces: readonly Uint8Array[] = []
  const { url, connections } = await connectionsForThisTest(async (_request, response) => {
    for (const piece of pieces) await new Promise((resolve) => response.write(piece, resolve))
    response.end()
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

it('reads and drops the rest of an answer that is drained, however long it is, and reuses the connection', async () => {
  const { server, connections, clock } = await connectionsForThisTest((_request, response) => {
    response.write('first')
    response.end(Buffer.alloc(8 * 1024 ** 2))
  })
  let sockets = 0
  server.on('connection', () => sockets++)
  const { signal } = new AbortController()
  for (let count = 0; count < 2; count++) {
    const answer = await connections.get('/', {}, signal)
    await answer.next()
    answer.drain()
    await clock.untilWaiting(1000, false)
    // undici gives the connection back in a later turn of the event loop.
    await setImmediate()
  }
  expect(sockets).toBe(1)
})
