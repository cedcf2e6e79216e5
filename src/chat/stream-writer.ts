import type { OutgoingHttpHeader, ServerResponse } from 'node:http'
import type { FastifyReply } from 'fastify'
import type { Clock, Timer } from '../clock.ts'

const comment = commentOf('waiting')

/**
 * Writes server-sent events to a reply (WHATWG HTML, section 9.2): its head, comment lines while it is silent, the events
 * as fast as they are read, and its end. Whoever makes a writer closes it.
 */
export class StreamWriter {
  readonly #reply: FastifyReply
  readonly #response: ServerResponse
  readonly #keepalive: Timer

  /**
   * @param keepaliveMs milliseconds of silence after which a comment line is sent
   * @param clock tells how long the silence is
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

  /** Whether the head has gone out, so that a failure cannot be told by a status any more. */
  get hasBegun(): boolean {
    return this.#response.headersSent
  }

  /**
   * Ends a silence; the first time, the head goes out with what is written next.
   * @returns false when the client has left, and nothing is to be written any more
   */
  begin(): boolean {
    if (this.#response.destroyed) return false
    if (!this.#response.headersSent) this.#writeHead()
    this.#keepalive.refresh()
    return true
  }

  /** Writes whole events, as `eventOf` makes them, in one piece: each by itself would cost as much as making it. */
  write(events: string): void {
    if (events !== '') this.#response.write(events)
  }

  /** Writes whole events as they are. */
  pass(events: Buffer): void {
    this.#response.write(events)
  }

  /** A promise where the client must read before more is written: that it takes more, or never will. */
  get room(): Promise<void> | undefined {
    return this.#response.writableNeedDrain ? drained(this.#response) : undefined
  }

  /** Writes the last events. */
  end(events: string): void {
    this.#response.end(events)
  }

  /** Ends the comment lines. */
  close(): void {
    this.#keepalive.close()
  }

  /** Takes the reply out of Fastify's hands, whose streams would cost as much as the rest of the relay. */
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

/** One comment line, which clients pass over. */
export function commentOf(text: string): string {
  return `: ${text}\n\n`
}

/**
 * One server-sent event. Data of several lines has the field's name before each of them (WHATWG HTML, section 9.2.6).
 * @param type its name, where it has one
 */
export function eventOf(data: string, type?: string): string {
  const lines = data.includes('\n') ? data.replaceAll('\n', '\ndata: ') : data
  return type === undefined ? `data: ${lines}\n\n` : `event: ${type}\ndata: ${lines}\n\n`
}

/** Resolves when the response takes more, or will never take any; in another turn of the event loop. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const go = () => {
      response.off('drain', go)
      response.off('close', go)
      // A quick reader's connection takes everything at once: without this, a long reply would be written in one stretch.
      setImmediate(resolve)
    }
    response.on('drain', go)
    response.on('close', go)
    if (response.destroyed) go()
  })
}
