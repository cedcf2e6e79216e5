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
  /** Told once, when the stream is over: the finish reason, or the code of the error that ended it. */
  readonly onEnd: (state: string) => void
}

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
  await settledWithin(first, options.keepaliveMs)
  reply.headers({
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache',
    'x-accel-buffering': 'no',
  })
  return reply.send(eventStream(first, iterator, options))
}

/** Waits for the promise, at most so long; its rejection is thrown, its lateness is not. */
async function settledWithin(promise: Promise<unknown>, milliseconds: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, milliseconds)
  })
  try {
    await Promise.race([promise, late])
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

  let isSilent = true
  const keepalive = setInterval(() => {
    if (isSilent && body.readableLength === 0) body.push(': waiting\n\n')
    isSilent = true
  }, keepaliveMs)

  const pump = async (): Promise<void> => {
    let state = 'stop'
    try {
      for (let step = await first; !step.done; step = await iterator.next()) {
        isSilent = false
        let text = ''
        for (const { chunk, text: own } of step.value) {
          state = chunk.choices[0]?.finish_reason ?? state
          const isUsageOnly = chunk.choices.length === 0 && chunk.usage != null
          if (!isUsageOnly || includeUsage) text += `data: ${own ?? JSON.stringify(chunk)}\n\n`
        }
        if (body.destroyed) break
        if (text !== '' && !body.push(text)) {
          await new Promise<void>((resolve) => {
            resume = resolve
          })
        }
      }
      body.push('data: [DONE]\n\n')
    } catch (thrown) {
      const error = toApiError(thrown)
      state = error.code
      body.push(`data: ${JSON.stringify(openAiErrorBody(error))}\n\n`)
    }
    clearInterval(keepalive)
    onEnd(body.destroyed ? 'client_gone' : state)
    body.push(null)
    await iterator.return?.()
  }
  void pump()
  return body
}
