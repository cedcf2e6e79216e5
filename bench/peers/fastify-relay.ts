import Fastify, { type FastifyRequest } from 'fastify'
import { readWhole } from '../../src/models/upstream/answer.ts'
import { UpstreamConnections } from '../../src/models/upstream/connections.ts'

/*
 * A minimal relay with Fastify that puts a prompt before the messages: `node bench/peers/fastify-relay.ts PORT UPSTREAM`. It
 * has no validation, no lore, no ledger and no timeouts.
 */

const [port, upstream = ''] = process.argv.slice(2)
/** A system message as long as Fern's prompt. */
const prompt = JSON.stringify({ role: 'system', content: 'x'.repeat(14_000) })
const opening = Buffer.from(`{"messages":[${prompt},`)
const connections = new UpstreamConnections(upstream, 10_000)
const app = Fastify()

interface Body {
  readonly messages: readonly object[]
  readonly character?: string
  readonly stream?: boolean
}

app.post('/v1/chat/completions', async (request: FastifyRequest<{ Body: Body }>, reply) => {
  const { messages, character: _character, ...rest } = request.body
  const own = messages.map((message) => JSON.stringify(message)).join(',')
  const body = Buffer.concat([opening, Buffer.from(`${own}],${JSON.stringify(rest).slice(1)}`)])
  const headers = { 'content-type': 'application/json' }
  const answer = await connections.post('/v1/chat/completions', headers, body, new AbortController().signal)
  if (rest.stream !== true) return reply.type('application/json').send(await readWhole(answer))
  reply.hijack()
  reply.raw.writeHead(200, { 'content-type': 'text/event-stream' })
  for await (const piece of answer) reply.raw.write(piece)
  reply.raw.end()
  return reply
})

await app.listen({ host: '127.0.0.1', port: Number(port) })
