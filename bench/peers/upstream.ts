import { createServer, type ServerResponse } from 'node:http'

/*
 * A model's service that costs as little as possible: `node bench/peers/upstream.ts PORT`.
 * Model "whole" answers at once, "burst" streams 100 events at once, "paced" 40 events a second for as long as asked.
 */

const port = Number(process.argv[2])
const completion = JSON.stringify({
  id: 'chatcmpl-bench',
  object: 'chat.completion',
  created: 1700000000,
  model: 'bench',
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: 'Words enough for an answer. '.repeat(12), refusal: null },
      logprobs: null,
      finish_reason: 'stop',
    },
  ],
  usage: { prompt_tokens: 700, completion_tokens: 84, total_tokens: 784 },
})

const event = (delta: object, finishReason: string | null) =>
  `data: ${JSON.stringify({
    id: 'chatcmpl-bench',
    object: 'chat.completion.chunk',
    created: 1700000000,
    model: 'bench',
    choices: [{ index: 0, delta, logprobs: null, finish_reason: finishReason }],
  })}\n\n`

const word = event({ content: ' word' }, null)
const end = `${event({}, 'stop')}data: [DONE]\n\n`
const burst = event({ role: 'assistant', content: '' }, null) + word.repeat(98) + end

/** Open paced streams, and how many events each still has to send. */
const paced = new Map<ServerResponse, number>()
setInterval(() => {
  for (const [response, left] of paced) {
    if (left > 0) {
      response.write(word)
      paced.set(response, left - 1)
    } else {
      response.end(end)
      paced.delete(response)
    }
  }
}, 25)

createServer((request, response) => {
  const pieces: Buffer[] = []
  request.on('data', (piece) => pieces.push(piece))
  request.on('end', () => {
    const body = Buffer.concat(pieces)
    if (body.includes('"paced')) {
      const seconds = Number(/"paced-(\d+)"/.exec(body.toString('latin1'))?.[1] ?? 5)
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(event({ role: 'assistant', content: '' }, null))
      paced.set(response, seconds * 40)
      response.once('close', () => paced.delete(response))
    } else if (body.includes('"stream":true')) {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(burst)
    } else {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(completion) })
      response.end(completion)
    }
  })
}).listen(port, '127.0.0.1')
