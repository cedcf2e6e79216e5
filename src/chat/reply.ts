import type { OutgoingHttpHeader, ServerResponse } from 'node:http'
import type { FastifyReply } from 'fastify'
import type { Clock } from '../clock.ts'
import { type ApiError, openAiErrorBody, toApiError } from '../errors.ts'
import type { ModelEvent } from '../models/model.ts'
import { isUsageOnly, recordedReason } from '../openai/completion.ts'
import type { Visit } from '../usage/visit.ts'
import type { UsageWatch } from './usage.ts'

/** What a stream needs besides its events. */
export interface StreamOptions {
  /** What counts the usage for the reply, when the caller asked for it. */
  readonly usage: UsageWatch | null
  /** Told of the first event, and counts what passes. */
  readonly visit: Pick<Visit, 'began' | 'meter'>
  /** Milliseconds of silence after which a comment line is sent. */
  readonly keepaliveMs: number
  /** Tells how long the silence is. */
  readonly clock: Clock
  /**
   * Told once, when a stream that has begun is over: the finish reason, or the code of the error that ended it, and the
   * error. Where it gives a promise, the last words wait for that.
   */
  readonly onEnd: (state: string, failure?: ApiError) => Promise<void> | undefined
}

const comment = ': waiting\n\n'

/**
 * Sends a model's events as server-sent events, and resolves when that is over. The status line waits for the first of
 * them, so that a failure before it is thrown and becomes a real HTTP error; only after `keepaliveMs` of silence does
 * the reply begin without one. A failure after that is one error event and the end, without `[DONE]`.
 * @param opening the events, once the first of them is there
 */
export async function sendEvents(
  reply: FastifyReply,
  opening: Promise<AsyncIterable<readonly ModelEvent[]>>,
  { usage, visit, keepaliveMs, clock, onEnd }: StreamOptions,
): Promise<void> {
  const response = reply.raw
  const begin = () => {
    if (!response.headersSent) beginStream(reply)
  }
  const keepalive = clock.setTimeout(() => {
    begin()
    if (!response.writableNeedDrain) response.write(comment)
    keepalive.refresh()
  }, keepaliveMs)

  const { meter } = visit
  const end = (state: string, failure?: ApiError) => (response.destroyed ? onEnd('client_gone') : onEnd(state, failure))
  let state = 'stop'
  try {
    for await (const events of await opening) {
      if (response.destroyed) break
      begin()
      visit.began()
      keepalive.refresh()
      // What is written in one turn leaves in one piece: Node corks it.
      for (const event of events) {
        for (const chunk of 'passage' in event ? event.read : [event.chunk]) {
          const reason = chunk.choices[0]?.finish_reason
          if (reason) state = recordedReason(reason)
          usage?.note(chunk)
          meter.note(chunk)
        }
        if ('passage' in event) {
          meter.pass(event)
          response.write(event.passage)
        } else {
          for (const { delta } of event.chunk.choices) meter.say(delta)
          // A usage chunk waits for the end, where there is one of it, and only when it was asked for.
          if (!isUsageOnly(event.chunk)) response.write(eventOf(event.text ?? JSON.stringify(event.chunk)))
        }
      }
      if (response.writableNeedDrain) await drained(response)
    }
    if (usage && !response.destroyed) {
      const chunk = await usage.chunk()
      if (chunk.usage) meter.tell(chunk.usage, false)
      response.write(eventOf(JSON.stringify(chunk)))
    }
    const kept = end(state)
    // Without a promise nothing waits, so that the end leaves in one piece with what came before it.
    if (kept) await kept
    response.end(eventOf('[DONE]'))
  } catch (thrown) {
    const failure = toApiError(thrown)
    if (!response.headersSent) throw failure
    await end(failure.code, failure)
    response.end(eventOf(JSON.stringify(openAiErrorBody(failure))))
  } finally {
    keepalive.close()
  }
}

/** Takes the reply out of Fastify's hands, whose streams would cost as much as the rest of the relay. */
function beginStream(reply: FastifyReply): void {
  reply.hijack()
  const headers: NodeJS.Dict<OutgoingHttpHeader> = reply.getHeaders()
  reply.raw.writeHead(200, {
    ...headers,
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache',
    'x-accel-buffering': 'no',
  })
}

/** Resolves when the response takes more, or will never take any. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const go = () => {
      response.off('drain', go)
      response.off('close', go)
      resolve()
    }
    response.on('drain', go)
    response.on('close', go)
    if (response.destroyed) go()
  })
}

/** One server-sent event; a text of several lines has the field's name before each (WHATWG HTML, section 9.2.6). */
function eventOf(data: string): string {
  return data.includes('\n') ? `data: ${data.replaceAll('\n', '\ndata: ')}\n\n` : `data: ${data}\n\n`
}
