import type { OutgoingHttpHeader, ServerResponse } from 'node:http'
import type { FastifyReply } from 'fastify'
import type { Clock, Timer } from '../clock.ts'
import { clientGone, toApiError } from '../errors.ts'
import type { ChunkEvent, ModelEvent } from '../models/model.ts'
import { type FinishReason, recordedReason } from '../openai/finish-reasons.ts'
import type { End, Meter } from '../usage/outcome.ts'
import { commentOf, type Events, type ReplyFormat } from './reply-format.ts'
import type { UsageWatch } from './usage.ts'

/** The parts that a stream needs besides its events. */
export interface StreamOptions {
  readonly format: ReplyFormat
  /** Finds the usage for the reply. Null if the caller did not ask for usage. */
  readonly usage: UsageWatch | null
  /** Counts the tokens of the chunks for the ledger. */
  readonly meter: Meter
  /** Milliseconds of silence after which a comment line is sent. */
  readonly keepaliveMs: number
  /** The clock for the keep-alives. */
  readonly clock: Clock
  /**
   * Called once, when a stream that has begun is over. If the function returns a promise, the last event waits for the promise.
   */
  readonly onEnd: (end: End) => Promise<void> | undefined
  /**
   * Called at the end. If the upstream has truncated the prompt, returns the token counts of the upstream and of Conservatory, as
   * `<theirs>/<ours>`.
   */
  readonly truncation: () => Promise<string | null> | undefined
}

/**
 * Sends a model's events as server-sent events, and resolves when the stream is over. The status line waits for the first event,
 * so that an earlier failure can be thrown and becomes an HTTP error. After `keepaliveMs` of silence the reply begins without an
 * event. When the reply has begun, a failure ends the stream with the error event of the format.
 * @param opening resolves to the events when the first event has come
 */
export async function sendEvents(
  reply: FastifyReply,
  opening: Promise<AsyncIterable<readonly ModelEvent[]>>,
  options: StreamOptions,
): Promise<void> {
  const { format, usage, meter, onEnd, truncation } = options
  const stream = new EventStream(reply, options)
  const tellEnd = (end: End) => onEnd(stream.isGone ? clientGone() : end)
  try {
    await stream.passAll(await opening)
    const used = usage && !stream.isGone ? await usage.chunk() : null
    if (used) meter.setUsage(used.usage, false)
    // `await` needs another turn. Without a promise, the end is written in the same turn as the last event.
    const looking = truncation()
    const truncated = looking ? await looking : null
    const kept = tellEnd(stream.reason)
    if (kept) await kept
    if (truncated !== null) stream.write(commentOf(`upstream truncated ${truncated}`))
    stream.end(format.end(used))
  } catch (thrown) {
    const failure = toApiError(thrown)
    if (!stream.hasBegun) throw failure
    await tellEnd(failure)
    stream.end(format.failure(failure))
  } finally {
    stream.close()
  }
}

const comment = commentOf('waiting')

/**
 * A reply of server-sent events (WHATWG HTML, section 9.2): the head, comment lines during silence, the model's events as fast as
 * the client reads them, and the end. It counts the tokens of the events. The caller closes it.
 */
class EventStream {
  /** The finish reason that the model has sent. Before that, `stop`. */
  reason: FinishReason = 'stop'
  readonly #reply: FastifyReply
  readonly #response: ServerResponse
  readonly #options: StreamOptions
  readonly #keepalive: Timer
  /** Events that are not written yet. One write for each event would take as much time as making the event. */
  #unwritten = ''

  constructor(reply: FastifyReply, options: StreamOptions) {
    this.#reply = reply
    this.#response = reply.raw
    this.#options = options
    this.#keepalive = options.clock.setTimeout(() => {
      if (this.#begin() && !this.#response.writableNeedDrain) this.#response.write(comment)
    }, options.keepaliveMs)
  }

  /** Whether the client has left. */
  get isGone(): boolean {
    return this.#response.destroyed
  }

  /** Whether the head has been sent. Then a failure can no longer change the HTTP status. */
  get hasBegun(): boolean {
    return this.#response.headersSent
  }

  /** Writes events as they come, until the client leaves. After each group it waits until the client has read enough. */
  async passAll(groups: AsyncIterable<readonly ModelEvent[]>): Promise<void> {
    for await (const events of groups) {
      if (!this.#begin()) return
      for (const event of events) {
        if ('passage' in event) {
          this.#options.meter.countPassage(event)
          this.write(event.passage)
        } else this.#add(event)
      }
      this.write('')
      if (this.#response.writableNeedDrain) await drained(this.#response)
    }
  }

  /** Writes the events that wait, and a piece after them. */
  write(piece: string | Buffer): void {
    const waiting = this.#unwritten
    this.#unwritten = ''
    if (waiting !== '') this.#response.write(waiting)
    if (piece.length > 0) this.#response.write(piece)
  }

  /** Writes the last events. */
  end(events: Events): void {
    if (typeof events === 'string') this.#response.end(events)
    else {
      for (const piece of events) this.write(piece)
      this.#response.end()
    }
  }

  /** Stops the comment lines. */
  close(): void {
    this.#keepalive.close()
  }

  #add(event: ChunkEvent): void {
    const { format, meter, usage } = this.#options
    const { chunk } = event
    const reason = chunk.choices[0]?.finish_reason
    if (reason) this.reason = recordedReason(reason)
    usage?.note(chunk)
    meter.countChunk(chunk)
    const written = format.chunk(event)
    if (typeof written === 'string') this.#unwritten += written
    else for (const piece of written) this.write(piece)
  }

  /**
   * Restarts the keep-alive timer. The first call also writes the head, which Node sends together with the first bytes of the
   * body.
   * @returns false if the client has left. Then nothing more may be written
   */
  #begin(): boolean {
    if (this.#response.destroyed) return false
    if (!this.#response.headersSent) this.#writeHead()
    this.#keepalive.refresh()
    return true
  }

  /** Writes the head without Fastify, because Fastify's streams would take as much time as the rest of the relay. */
  #writeHead(): void {
    this.#reply.hijack()
    const headers: NodeJS.Dict<OutgoingHttpHeader> = this.#reply.getHeaders()
    this.#response.writeHead(200, {
      ...headers,
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-store',
      'x-accel-buffering': 'no',
    })
  }
}

/** Resolves, in another turn of the event loop, when the response accepts more data or is closed. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const go = () => {
      response.off('drain', go)
      response.off('close', go)
      // If a client reads quickly, its connection drains immediately. Without `setImmediate`, a long reply would then block the
      // event loop.
      setImmediate(resolve)
    }
    response.on('drain', go)
    response.on('close', go)
    if (response.destroyed) go()
  })
}
