import { createServer, type ServerResponse } from 'node:http'

/*
 * A cheap upstream: `node bench/peers/upstream.ts PORT`.
 * The model "whole" answers immediately, "burst" streams 100 events immediately, and "paced-SECONDS" streams 40 events a second.
 * If the request asks for usage, a stream has one more event.
 */

const port = Number(process.argv[2])
const usage = { prompt_tokens: 2800, completion_tokens: 84, total_tokens: 2884 }
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
  usage,
})

const head = { id: 'chatcmpl-bench', object: 'chat.completion.chunk', created: 1700000000, model: 'bench' }
const event = (delta: object, finishReason: string | null) =>
  `data: ${JSON.stringify({ ...head, choices: [{ index: 0, delta, logprobs: null, finish_reason: finishReason }] })}\n\n`

const word = event({ content: ' word' }, null)
const done = 'data: [DONE]\n\n'
const end = event({}, 'stop') + done
const endWithUsage = `${event({}, 'stop')}data: ${JSON.stringify({ ...head, choices: [], usage })}\n\n${done}`
const beginning = event({ role: 'assistant', content: '' }, null) + word.repeat(98)
const burst = beginning + end
const burstWithUsage = beginning + endWithUsage

/** Sets about the real number of prompt tokens. If the number were much too low, the service would count the tokens itself. */
const told = (answer: string, prompt: Buffer) =>
  answer.replace('"prompt_tokens":2800', `"prompt_tokens":${Math.round(prompt.length / 4)}`)

/** Open paced streams, each with its number of remaining events and its last events. */
const paced = new Map<ServerResponse, { left: number; readonly end: string }>()
setInterval(() => {
  for (const [response, stream] of paced) {
    if (stream.left > 0) {
      response.write(word)
      stream.left--
    } else {
      response.end(stream.end)
      paced.delete(response)
    }
  }
}, 25)

createServer((request, response) => {
  const pieces: Buffer[] = []
  request.on('data', (piece) => pieces.push(piece))
  request.on('end', () => {
    const body = Buffer.concat(pieces)
    const isAsked = body.includes('"include_usage":true')
    if (body.includes('"paced')) {
      const seconds = Number(/"paced-(\d+)"/.exec(body.toString('latin1'))?.[1] ?? 5)
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(event({ role: 'assistant', content: '' }, null))
      paced.set(response, { left: seconds * 40, end: isAsked ? endWithUsage : end })
      response.once('close', () => paced.delete(response))
    } else if (body.includes('"stream":true')) {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(isAsked ? told(burstWithUsage, body) : burst)
    } else {
      const answer = told(completion, body)
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(answer) })
      response.end(answer)
    }
  })
}).listen(port, '127.0.0.1')
