import { once } from 'node:events'
import Fastify, { type FastifyReply } from 'fastify'
import { expect, test } from 'vitest'
import { OpenReplies } from '../../src/chat/open-replies.ts'
import { whileConnected } from '../../src/http/body.ts'
import { connectTo } from '../support/connection.ts'

/** Runs a function for a request whose client has disconnected already. */
async function afterTheClientLeft<T>(run: (reply: FastifyReply) => T | Promise<T>): Promise<T> {
  const app = Fastify()
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  const arrived = Promise.withResolvers<void>()
  app.get('/', async (_request, reply) => {
    arrived.resolve()
    await once(reply.raw, 'close')
    await Promise.resolve(run(reply)).then(resolve, reject)
    return reply.hijack()
  })
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  const { socket } = await connectTo(url, 'GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  await arrived.promise
  socket.destroy()
  try {
    return await promise
  } finally {
    await app.close()
  }
}

test('the signal of a reply that begins after its client has disconnected is aborted, and the key is not watched', async () => {
  const replies = new OpenReplies({
    watch() {
      throw new Error('watched')
    },
  })
  const signal = await afterTheClientLeft((reply) => replies.signalOf(reply))
  expect([signal.aborted, signal.reason]).toEqual([true, expect.objectContaining({ code: 'client_gone' })])
})

test('work that starts after its client has disconnected gets an aborted signal', async () => {
  const isAborted = await afterTheClientLeft(({ request }) => whileConnected(request, (signal) => signal.aborted))
  expect(isAborted).toBe(true)
})
