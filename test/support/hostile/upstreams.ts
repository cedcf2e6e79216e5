import type { IncomingMessage, ServerResponse } from 'node:http'
import { sse } from '../upstream.ts'
import { answerWell } from './good-upstream.ts'
import { hi, json, postRow, type Row, times } from './row.ts'

/* Hostile replies of an upstream. A caller may have made an honest upstream send them. */

const path = '/chat/completions'
const megabyte = 1024 ** 2

interface UpstreamRow {
  readonly name: string
  /** Whether the request is one of the Responses API. */
  readonly isResponse?: boolean
  readonly model?: string
  readonly stream?: boolean
  /** The status of the reply, by default 200. */
  readonly status?: number
  /** Writes the whole reply. */
  readonly answer: (response: ServerResponse) => void
}

/** The messages of a chat before the attack, with a normal answer: loading a package must not count as part of the attack. */
const warming = [{ role: 'user', content: 'Warming up' }] as const

const upstreamRow = ({
  name,
  isResponse = false,
  model = 'relay',
  stream = true,
  status = 200,
  answer,
}: UpstreamRow): Row => {
  const asked = (messages: readonly object[]) => (isResponse ? { model, input: messages } : { model, messages })
  return postRow(`${model}: ${name}`, isResponse ? '/responses' : path, () => json({ ...asked(hi), stream }), {
    isLargest: true,
    small: asked(warming),
    upstream: (request, response) => {
      response.on('error', () => {})
      void bodyOf(request).then((body) => {
        if (body.includes(warming[0].content)) return answerWell(request, response)
        response.writeHead(status, { 'content-type': stream ? 'text/event-stream' : 'application/json' })
        answer(response)
      })
    },
  })
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const piece of request) text += piece
  return text
}

const chunk = (delta: object, more: object = {}) =>
  JSON.stringify({
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1700000000,
    model: 'm',
    choices: [{ index: 0, delta, logprobs: null, finish_reason: null, ...more }],
  })
const end = sse(chunk({}, { finish_reason: 'stop' }), '[DONE]')

/** Writes a piece `count` times, with backpressure, then `last`, and ends the reply. */
function pour(response: ServerResponse, piece: Buffer, count: number, last = ''): void {
  let left = count
  const go = () => {
    while (left > 0 && !response.destroyed) {
      left--
      if (!response.write(piece)) {
        response.once('drain', go)
        return
      }
    }
    if (!response.destroyed) response.end(last)
  }
  go()
}

const events = (each: string, count: number) => (response: ServerResponse) => {
  const perPiece = 1000
  pour(response, Buffer.from(sse(each).repeat(perPiece)), count / perPiece, end)
}
const filler = (head: string, megabytes: number, tail: string) => (response: ServerResponse) => {
  response.write(head)
  pour(response, Buffer.alloc(megabyte, 'a'), megabytes, tail)
}
const piece = (text: string) =>
  JSON.stringify({ type: 'content_block_delta', index: 0, delta: { type: 'input_json_delta', partial_json: text } })
const begin = JSON.stringify({
  type: 'message_start',
  message: {
    id: 'a',
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 },
  },
})
const blockOf = (content_block: object, index = 0) =>
  JSON.stringify({ type: 'content_block_start', index, content_block })

export const upstreams: readonly Row[] = [
  upstreamRow({
    name: 'a response of 15 MB, streamed',
    isResponse: true,
    answer: events(chunk({ content: 'moss and fern '.repeat(360) }), 3000),
  }),
  upstreamRow({
    name: 'a response of 15 MB, whole',
    isResponse: true,
    stream: false,
    answer: filler(
      '{"id":"a","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"',
      15,
      '"}}]}',
    ),
  }),
  ...['relay', 'claude'].map((model) =>
    upstreamRow({
      name: 'an error message of 4,000 open brackets',
      model,
      stream: false,
      status: 400,
      answer: (response) => response.end(JSON.stringify({ error: { message: '<'.repeat(4000) } })),
    }),
  ),
  upstreamRow({ name: '300,000 tiny events', answer: events(chunk({ content: 'a' }), 300_000) }),
  upstreamRow({
    name: '1,000,000 comments before the first event',
    answer: (response) =>
      pour(response, Buffer.from(': a\n'.repeat(1000)), 1000, sse(chunk({ role: 'assistant', content: 'a' })) + end),
  }),
  upstreamRow({ name: 'a line of 100 MB', answer: filler('data: ', 100, '\n\n') }),
  upstreamRow({
    name: 'an event of 4 MB',
    answer: (response) => response.end(sse(chunk({ content: 'a'.repeat(4 * megabyte) })) + end),
  }),
  upstreamRow({
    name: '200 events with 10,000 choices each',
    answer: (response) => {
      const choices = times(10_000, (index) => ({ index: index % 8, delta: { content: 'a' }, finish_reason: null }))
      pour(
        response,
        Buffer.from(sse(JSON.stringify({ id: 'a', object: 'chat.completion.chunk', created: 1, model: 'm', choices }))),
        200,
        end,
      )
    },
  }),
  upstreamRow({
    name: '100,000 events of tool calls, each of another index',
    answer: (response) => {
      const all = times(100_000, (index) =>
        chunk({ tool_calls: [{ index, id: `c${index}`, type: 'function', function: { name: 'f', arguments: '{' } }] }),
      )
      response.end(sse(...all) + end)
    },
  }),
  upstreamRow({ name: 'JSON of 100 MB', stream: false, answer: filler('{"id":"', 100, '"}') }),
  upstreamRow({
    name: 'JSON of 30 MB that nests',
    stream: false,
    answer: (response) => pour(response, Buffer.alloc(megabyte, '['), 30),
  }),
  upstreamRow({
    name: 'JSON with 100,000 choices',
    stream: false,
    answer: (response) => {
      const choices = times(100_000, (index) => ({
        index,
        message: { role: 'assistant', content: 'Hello.', refusal: null },
        finish_reason: 'stop',
      }))
      response.end(JSON.stringify({ id: 'a', object: 'chat.completion', created: 1, model: 'm', choices }))
    },
  }),
  upstreamRow({
    name: '8 MB of ten letters repeated, without usage',
    stream: false,
    answer: (response) => {
      response.end(
        JSON.stringify({
          id: 'a',
          object: 'chat.completion',
          created: 1,
          model: 'm',
          choices: [
            {
              index: 0,
              message: { role: 'assistant', content: 'qzjxkvwpfy'.repeat(800_000), refusal: null },
              finish_reason: 'stop',
            },
          ],
        }),
      )
    },
  }),
  upstreamRow({
    name: '300,000 pieces of one tool argument',
    model: 'claude',
    answer: (response) => {
      response.write(sse(begin, blockOf({ type: 'tool_use', id: 'a', name: 'f', input: {} }), piece('{"a":"')))
      pour(
        response,
        Buffer.from(sse(piece('a')).repeat(1000)),
        300,
        sse(JSON.stringify({ type: 'content_block_stop', index: 0 })) + sse(JSON.stringify({ type: 'message_stop' })),
      )
    },
  }),
  upstreamRow({
    name: '50,000 blocks in one reply',
    model: 'claude',
    stream: false,
    answer: (response) => {
      response.end(
        JSON.stringify({
          type: 'message',
          id: 'a',
          role: 'assistant',
          model: 'm',
          content: times(50_000, () => ({ type: 'text', text: 'Hello.' })),
          stop_reason: 'end_turn',
          usage: { input_tokens: 1, output_tokens: 1 },
        }),
      )
    },
  }),
  upstreamRow({
    name: '100,000 parts in one reply',
    model: 'gemini',
    stream: false,
    answer: (response) => {
      response.end(
        JSON.stringify({
          candidates: [
            { content: { role: 'model', parts: times(100_000, () => ({ text: 'Hi ' })) }, finishReason: 'STOP' },
          ],
          usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
        }),
      )
    },
  }),
  upstreamRow({
    name: '8,000 calls with one index',
    model: 'compatible',
    answer: (response) => {
      const call = (index: number) => ({ index: 0, id: `c${index}`, function: { name: `f${index}`, arguments: '{' } })
      response.end(sse(...times(8000, (index) => chunk({ tool_calls: [call(index)] }))) + end)
    },
  }),
  upstreamRow({
    name: 'an event of 5 MB with 400,000 names',
    answer: (response) => {
      const names = Object.fromEntries(times(400_000, (index) => [`n${index}`, 1]))
      response.end(sse(chunk({ content: 'a' }), chunk({}, { finish_reason: 'stop', names })) + end)
    },
  }),
  upstreamRow({
    name: 'JSON of 4,100 objects that are no blocks',
    model: 'claude',
    stream: false,
    answer: (response) => {
      response.end(`{"type":"message","id":"a","model":"m","content":[${'{},'.repeat(4100)}{}],"usage":{}}`)
    },
  }),
  upstreamRow({ name: 'JSON of 100 MB', model: 'claude', stream: false, answer: filler('{"id":"', 100, '"}') }),
]
