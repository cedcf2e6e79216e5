import fc from 'fast-check'
import { type FastifyInstance, type FastifyReply, fastify } from 'fastify'
import { expect, it, onTestFinished } from 'vitest'
import { sendAtEndOfTurn } from '../../src/http/end-of-turn.ts'
import { anyCharacter } from '../support/any-character.ts'

interface Reply {
  readonly status: number
  readonly type: string
  readonly text: string
}

const none: Reply = { status: 404, type: 'text/plain', text: '' }

/** A server that sends a reply of the list: `/at-once/0` by `reply.send`, and `/end-of-turn/0` by `sendAtEndOfTurn`. */
function serverForThisTest(replies: { list: readonly Reply[] }): FastifyInstance {
  const app = fastify()
  onTestFinished(() => app.close())
  const send = (reply: FastifyReply, text: string) => void reply.send(text)
  for (const [path, sendText] of Object.entries({ '/at-once': send, '/end-of-turn': sendAtEndOfTurn })) {
    app.get<{ Params: { place: string } }>(`${path}/:place`, (request, reply) => {
      const { status, type, text } = replies.list[Number(request.params.place)] ?? none
      reply.code(status).header('content-type', type)
      sendText(reply, text)
    })
  }
  return app
}

const anyReply = fc.record({
  status: fc.constantFrom(200, 201, 503),
  type: fc.constantFrom('application/json; charset=utf-8', 'text/plain; charset=utf-8'),
  text: fc.string({ unit: anyCharacter, maxLength: 300 }),
})

it('sends the same replies as reply.send, however many in a turn', async () => {
  const replies: { list: readonly Reply[] } = { list: [] }
  const app = serverForThisTest(replies)
  const get = async (path: string) => {
    const { statusCode, headers, body } = await app.inject(path)
    return { statusCode, headers: { ...headers, date: '' }, body }
  }
  await fc.assert(
    fc.asyncProperty(fc.array(anyReply, { minLength: 1, maxLength: 5 }), async (list) => {
      replies.list = list
      const getAll = (path: string) => Promise.all(list.map((_, place) => get(`${path}/${place}`)))
      const sent = await getAll('/end-of-turn')
      expect(sent).toEqual(await getAll('/at-once'))
      expect(sent.map(({ body }) => body)).toEqual(list.map(({ text }) => text))
    }),
  )
})

it('sends nothing before the turn ends', async () => {
  const app = fastify()
  onTestFinished(() => app.close())
  const wasSent: boolean[] = []
  app.get('/', (_, reply) => {
    sendAtEndOfTurn(reply, 'a page')
    wasSent.push(reply.sent)
    queueMicrotask(() => wasSent.push(reply.sent))
  })
  expect((await app.inject('/')).body).toBe('a page')
  expect(wasSent).toEqual([false, false])
})

it('still answers other clients when a client has left before the turn ended', async () => {
  const app = serverForThisTest({ list: [{ status: 200, type: 'text/plain', text: 'a page' }] })
  app.get('/left', (request, reply) => {
    sendAtEndOfTurn(reply, 'a page')
    request.raw.socket.destroy()
  })
  const address = await app.listen({ host: '127.0.0.1', port: 0 })
  const left = await Promise.allSettled([fetch(`${address}/left`), fetch(`${address}/left`)])
  expect(left.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  expect(await (await fetch(`${address}/end-of-turn/0`)).text()).toBe('a page')
})
