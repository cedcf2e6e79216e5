import type { IncomingMessage, ServerResponse } from 'node:http'
import { completion } from '../upstream.ts'

/** Answers as OpenAI, Anthropic or Google, by the path. */
export function goodUpstream(request: IncomingMessage, response: ServerResponse): void {
  request.resume().on('end', () => answerWell(request, response))
}

/** Answers like `goodUpstream` to a request whose body has been read already. */
export function answerWell({ url = '' }: IncomingMessage, response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'application/json' })
  response.end(JSON.stringify(answerTo(url)))
}

function answerTo(path: string): object {
  if (path.includes('generateContent')) {
    return {
      candidates: [{ content: { role: 'model', parts: [{ text: 'Hello.' }] }, finishReason: 'STOP' }],
      usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
    }
  }
  if (!path.includes('messages')) return completion('Hello.')
  return {
    type: 'message',
    id: 'msg_1',
    role: 'assistant',
    model: 'claude-sonnet-4-5',
    content: [{ type: 'text', text: 'Hello.' }],
    stop_reason: 'end_turn',
    usage: { input_tokens: 1, output_tokens: 1 },
  }
}
