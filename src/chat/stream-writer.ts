import type { OutgoingHttpHeader, ServerResponse } from 'node:http'
import type { FastifyReply } from 'fastify'
import type { Clock, Timer } from '../clock.ts'

const comment = commentOf('waiting')

/**
 * Writes server-sent events to a reply (WHATWG HTML, section 9.2): the head, comment lines during silence, events as fast
 * as the client reads them, and the end. The caller closes the writer.
 */
export class StreamWriter {
  readonly #reply: FastifyReply
  readonly #response: ServerResponse
  readonly #keepalive: Timer

  /**
   * @param keepaliveMs milliseconds of silence after which a comment line is sent
   * @param clock the clock for the keep-alives
   */
  constructor(reply: FastifyReply, keepaliveMs: number, clock: Clock) {
    this.#reply = reply
    this.#response = reply.raw
    this.#keepalive = clock.setTimeout(() => {
      if (this.begin() && !this.#response.writableNeedDrain) this.#response.write(comment)
    }, keepaliveMs)
  }

  /** Whether the client has left. */
  get isGone(): boolean {
    return this.#response.destroyed
  }

  /** Whether the head has been sent. Then a failure can no longer change the HTTP status. */
  get hasBegun(): boolean {
    return this.#response.headersSent
  }

  /**
   * Restarts the keep-alive timer. The first call also writes the head, which Node sends together with the first bytes of the
   * body.
   * @returns false if the client has left. Then nothing more may be written
   */
  begin(): boolean {
    if (this.#response.destroyed) return false
    if (!this.#response.headersSent) this.#writeHead()
    this.#keepalive.refresh()
    return true
  }

  /**
   * Writes several events (made by `eventOf`) in one write. One write for each event would take as much time as making the event.
   */
  write(events: string | Buffer): void {
    if (events.length > 0) this.#response.write(events)
  }

  /** Backpressure: a promise that resolves when the client has read enough or has left. Undefined if more may be written now. */
  get room(): Promise<void> | undefined {
    return this.#response.writableNeedDrain ? drained(this.#response) : undefined
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

/** Server-sent events: a text, or pieces of which long ones are bytes. */
export type Events = string | readonly (string | Buffer)[]

/** One comment line, which clients ignore. */
export function commentOf(text: string): string {
  return `: ${text}\n\n`
}

/**
 * One server-sent event. Each line of data begins with the field's name (WHATWG HTML, section 9.2.6).
 * @param type the event's name, if it has one
 */
export function eventOf(data: string, type?: string): string {
  const lines = data.includes('\n') ? data.replaceAll('\n', '\ndata: ') : data
  return type === undefined ? `data: ${lines}\n\n` : `event: ${type}\ndata: ${lines}\n\n`
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
