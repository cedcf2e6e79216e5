import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { openAiErrorBody, toApiError } from '../errors.ts'
import type { ModelEvent } from '../models/model.ts'

/**
 * A signal that aborts when the client leaves before its reply is complete. The request's own signal will not do:
 * it aborts as soon as the body has been read.
 */
export function clientGone(reply: FastifyReply): AbortSignal {
  const controller = new AbortController()
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) controller.abort()
  })
  return controller.signal
}

/** What a stream needs besides its events. */
export interface StreamOptions {
  readonly includeUsage: boolean
  /** Milliseconds of silence after which a comment line is sent. */
  readonly keepaliveMs: number
  /** Told once, when a stream that has begun is over: the finish reason, or the code of the error that ended it. */
  readonly onEnd: (state: string) => void
}

const comment = ': waiting\n\n'

/**
 * Sends a model's events as server-sent events. The status line waits for the first of them, so that a failure before
 * it is thrown and becomes a real HTTP error; only after `keepaliveMs` of silence does the reply begin without one.
 * A failure after that is one error event and the end, without `[DONE]`.
 */
export async function sendEvents(
  reply: FastifyReply,
  events: AsyncIterable<readonly ModelEvent[]>,
  options: StreamOptions,
): Promise<FastifyReply> {
  const iterator = events[Symbol.asyncIterator]()
  const first = iterator.next()
  const isLate = !(await settlesWithin(first, options.keepaliveMs))
  reply.headers({
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache',
    'x-accel-buffering': 'no',
  })
  const body = eventStream(first, iterator, options)
  if (isLate) body.push(comment)
  return reply.send(body)
}

/** Tells whether the promise is fulfilled within so long; its rejection is thrown. */
async function settlesWithin(promise: Promise<unknown>, milliseconds: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), milliseconds)
  })
  try {
    return await Promise.race([promise.then(() => true), late])
  } finally {
    clearTimeout(timer)
  }
}

function eventStream(
  first: Promise<IteratorResult<readonly ModelEvent[]>>,
  iterator: AsyncIterator<readonly ModelEvent[]>,
  { includeUsage, keepaliveMs, onEnd }: StreamOptions,
): Readable {
  let resume: (() => void) | undefined
  const body = new Readable({
    read() {
      resume?.()
    },
    destroy(error, done) {
      resume?.()
      clearInterval(keepalive)
      done(error)
    },
  })

  const keepalive = setInterval(() => {
    if (body.readableLength === 0) body.push(comment)
  }, keepaliveMs)

  const pump = async (): Promise<void> => {
    let state = 'stop'
    try {
      for (let step = await first; !step.done; step = await iterator.next()) {
        keepalive.refresh()
        let text = ''
        for (const { chunk, text: own } of step.value) {
          state = chunk.choices[0]?.finish_reason ?? state
          const isUsageOnly = chunk.choices.length === 0 && chunk.usage != null
          if (!isUsageOnly || includeUsage) text += eventOf(own ?? JSON.stringify(chunk))
        }
        if (body.destroyed) break
        if (text !== '' && !body.push(text)) {
          await new Promise<void>((resolve) => {
            resume = resolve
          })
        }
      }
      body.push(eventOf('[DONE]'))
    } catch (thrown) {
      const error = toApiError(thrown)
      state = error.code
      body.push(eventOf(JSON.stringify(openAiErrorBody(error))))
    }
    clearInterval(keepalive)
    onEnd(body.destroyed ? 'client_gone' : state)
    body.push(null)
    await iterator.return?.()
  }
  void pump()
  return body
}

/** One server-sent event; a text of several lines has the field's name before each (WHATWG HTML, section 9.2.6). */
function eventOf(data: string): string {
  return `data: ${data.replaceAll('\n', '\ndata: ')}\n\n`
}
