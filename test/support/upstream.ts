import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

/** A request that the upstream got. */
export interface UpstreamCall {
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: Record<string, unknown>
  /** The body as it was sent. */
  readonly text: string
  /** Resolves if the caller disconnects before the answer is complete. */
  readonly aborted: Promise<void>
}

/** A function that answers one call. */
export type Script = (response: ServerResponse, call: UpstreamCall) => void | Promise<void>

/** A scripted OpenAI-compatible upstream on loopback. It records its calls. */
export interface ScriptedUpstream {
  /** The base URL, with `/v1`. */
  readonly url: string
  readonly calls: UpstreamCall[]
  /** Waits until there are this many calls. @returns the last of them */
  called(count: number): Promise<UpstreamCall>
  /** Replaces the scripts: one for each of the next calls, and the last script also for all further calls. */
  answer(...scripts: Script[]): void
  close(): Promise<void>
}

/** Starts a scripted upstream, and closes it at the end of the running test. */
export async function upstreamForThisTest(...scripts: Script[]): Promise<ScriptedUpstream> {
  const upstream = await startUpstream(...scripts)
  onTestFinished(() => upstream.close())
  return upstream
}

/** Starts a scripted upstream. The caller closes it. */
export async function startUpstream(...scripts: Script[]): Promise<ScriptedUpstream> {
  const queue = [...scripts]
  const calls: UpstreamCall[] = []
  const lookouts = new Set<() => void>()
  const server = createServer(async (request, response) => {
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece)
    const aborted = new Promise<void>((resolve) => {
      response.once('close', () => {
        if (!response.writableFinished) resolve()
      })
    })
    const text = Buffer.concat(pieces).toString('utf8')
    const call = {
      path: request.url ?? '',
      headers: request.headers,
      body: text ? JSON.parse(text) : {},
      text,
      aborted,
    }
    calls.push(call)
    for (const look of lookouts) look()
    const script = queue.length > 1 ? queue.shift() : queue[0]
    await script?.(response, call)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/v1`,
    calls,
    called: (count) =>
      new Promise((resolve) => {
        const look = () => {
          const call = calls[count - 1]
          if (!call) return
          lookouts.delete(look)
          resolve(call)
        }
        lookouts.add(look)
        look()
      }),
    answer: (...more) => {
      queue.length = 0
      queue.push(...more)
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** Answers with a JSON body. */
export function json(body: unknown, status = 200, headers: Record<string, string> = {}): Script {
  return (response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
  }
}

/**
 * Answers with raw pieces, each in its own write.
 * @param end what follows the last piece: the end of the answer, a reset of the connection, or nothing
 */
export function pieces(texts: readonly (string | Uint8Array)[], end: 'end' | 'cut' | 'hang' = 'end'): Script {
  return async (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const text of texts) {
      response.write(text)
      await new Promise((resolve) => setImmediate(resolve))
    }
    if (end === 'end') response.end()
    if (end === 'cut') response.socket?.resetAndDestroy()
  }
}

/** The text of server-sent events, each with its blank line. */
export const sse = (...events: readonly string[]): string => events.map((event) => `data: ${event}\n\n`).join('')

/** A whole completion of an upstream. */
export function completion(content: string, more: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    id: 'chatcmpl-upstream',
    object: 'chat.completion',
    created: 1700000000,
    model: 'upstream-model-2026',
    choices: [
      { index: 0, message: { role: 'assistant', content, refusal: null }, logprobs: null, finish_reason: 'stop' },
    ],
    usage: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 },
    ...more,
  }
}

/** One chunk of an upstream, as JSON text. */
export function chunkText(delta: Record<string, unknown>, finishReason: string | null = null): string {
  return JSON.stringify({
    id: 'chatcmpl-upstream',
    object: 'chat.completion.chunk',
    created: 1700000000,
    model: 'upstream-model-2026',
    choices: [{ index: 0, delta, logprobs: null, finish_reason: finishReason }],
  })
}

/** The events of a complete streamed answer: one event for each word, and the final `[DONE]`. */
export function streamOf(text: string): string[] {
  const words = text.split(/(?<= )/)
  return [
    chunkText({ role: 'assistant', content: '' }),
    ...words.map((word) => chunkText({ content: word })),
    chunkText({}, 'stop'),
    '[DONE]',
  ].map((data) => `data: ${data}\n\n`)
}
