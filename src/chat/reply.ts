import type { FastifyReply } from 'fastify'
import type { Clock } from '../clock.ts'
import { clientGone, toApiError } from '../errors.ts'
import type { ModelEvent } from '../models/model.ts'
import type { Chunk } from '../openai/completion.ts'
import { type FinishReason, recordedReason } from '../openai/finish-reasons.ts'
import type { Meter } from '../usage/meter.ts'
import type { End } from '../usage/outcome.ts'
import type { ReplyFormat } from './reply-format.ts'
import { commentOf, StreamWriter } from './stream-writer.ts'
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
  { format, usage, meter, keepaliveMs, clock, onEnd, truncation }: StreamOptions,
): Promise<void> {
  const writer = new StreamWriter(reply, keepaliveMs, clock)
  const tellEnd = (end: End) => onEnd(writer.isGone ? clientGone() : end)
  try {
    const relay = new Relay(writer, format, meter, usage)
    await relay.passAll(await opening)
    const used = usage && !writer.isGone ? await usage.chunk() : null
    if (used) meter.setUsage(used.usage, false)
    // `await` needs another turn. Without a promise, the end is written in the same turn as the last event.
    const looking = truncation()
    const truncated = looking ? await looking : null
    const kept = tellEnd(relay.reason)
    if (kept) await kept
    if (truncated !== null) writer.write(commentOf(`upstream truncated ${truncated}`))
    writer.end(format.end(used))
  } catch (thrown) {
    const failure = toApiError(thrown)
    if (!writer.hasBegun) throw failure
    await tellEnd(failure)
    writer.end(format.failure(failure))
  } finally {
    writer.close()
  }
}

/** Relays a model's events to the client, and counts their tokens. */
class Relay {
  /** The finish reason that the model has sent. Before that, `stop`. */
  reason: FinishReason = 'stop'
  readonly #writer: StreamWriter
  readonly #format: ReplyFormat
  readonly #meter: Meter
  readonly #usage: UsageWatch | null
  /** Events that are not written yet. */
  #unwritten = ''

  constructor(writer: StreamWriter, format: ReplyFormat, meter: Meter, usage: UsageWatch | null) {
    this.#writer = writer
    this.#format = format
    this.#meter = meter
    this.#usage = usage
  }

  /** Writes events as they come, until the client leaves. */
  async passAll(groups: AsyncIterable<readonly ModelEvent[]>): Promise<void> {
    for await (const events of groups) {
      if (!this.#writer.begin()) return
      for (const event of events) this.#pass(event)
      this.#writeOut()
      const { room } = this.#writer
      if (room) await room
    }
  }

  #pass(event: ModelEvent): void {
    if ('passage' in event) {
      this.#meter.countPassage(event)
      this.#writeOut()
      this.#writer.write(event.passage)
      return
    }
    this.#note(event.chunk)
    for (const { delta } of event.chunk.choices) this.#meter.countText(delta)
    const written = this.#format.chunk(event)
    if (typeof written === 'string') this.#unwritten += written
    else {
      this.#writeOut()
      for (const piece of written) this.#writer.write(piece)
    }
  }

  #writeOut(): void {
    this.#writer.write(this.#unwritten)
    this.#unwritten = ''
  }

  #note(chunk: Chunk): void {
    const reason = chunk.choices[0]?.finish_reason
    if (reason) this.reason = recordedReason(reason)
    this.#usage?.note(chunk)
    this.#meter.countChunk(chunk)
  }
}
