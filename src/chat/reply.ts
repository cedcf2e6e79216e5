import type { FastifyReply } from 'fastify'
import type { Clock } from '../clock.ts'
import { clientGone, openAiErrorBody, toApiError } from '../errors.ts'
import type { ModelEvent } from '../models/model.ts'
import { type Chunk, type FinishReason, isUsageOnly, recordedReason } from '../openai/completion.ts'
import type { Meter } from '../usage/meter.ts'
import type { End } from '../usage/outcome.ts'
import { StreamWriter } from './stream-writer.ts'
import type { UsageWatch } from './usage.ts'

/** What a stream needs besides its events. */
export interface StreamOptions {
  /** What counts the usage for the reply, when the caller asked for it. */
  readonly usage: UsageWatch | null
  /** Counts what passes. */
  readonly meter: Meter
  /** Milliseconds of silence after which a comment line is sent. */
  readonly keepaliveMs: number
  /** Tells how long the silence is. */
  readonly clock: Clock
  /** Told once, when a stream that has begun is over. Where it gives a promise, the last words wait for that. */
  readonly onEnd: (end: End) => Promise<void> | undefined
}

/**
 * Sends a model's events as server-sent events, and resolves when that is over. The status line waits for the first of
 * them, so that a failure before it is thrown and becomes a real HTTP error; only after `keepaliveMs` of silence does
 * the reply begin without one. A failure after that is one error event and the end, without `[DONE]`.
 * @param opening the events, once the first of them is there
 */
export async function sendEvents(
  reply: FastifyReply,
  opening: Promise<AsyncIterable<readonly ModelEvent[]>>,
  { usage, meter, keepaliveMs, clock, onEnd }: StreamOptions,
): Promise<void> {
  const writer = new StreamWriter(reply, keepaliveMs, clock)
  const tellEnd = (end: End) => onEnd(writer.isGone ? clientGone() : end)
  try {
    const relay = new Relay(writer, meter, usage)
    await relay.passAll(await opening)
    if (usage && !writer.isGone) {
      const chunk = await usage.chunk()
      if (chunk.usage) meter.tell(chunk.usage, false)
      writer.write(JSON.stringify(chunk))
    }
    const kept = tellEnd(relay.reason)
    // Without a promise nothing waits, so that the end leaves in one piece with what came before it.
    if (kept) await kept
    writer.end('[DONE]')
  } catch (thrown) {
    const failure = toApiError(thrown)
    if (!writer.hasBegun) throw failure
    await tellEnd(failure)
    writer.end(JSON.stringify(openAiErrorBody(failure)))
  } finally {
    writer.close()
  }
}

/** Passes a model's events on to the client, and takes note of what they say. */
class Relay {
  /** Why the model ended, as far as it has said. */
  reason: FinishReason = 'stop'
  readonly #writer: StreamWriter
  readonly #meter: Meter
  readonly #usage: UsageWatch | null
  /** Events that have been read, and not been written yet. */
  readonly #texts: string[] = []

  constructor(writer: StreamWriter, meter: Meter, usage: UsageWatch | null) {
    this.#writer = writer
    this.#meter = meter
    this.#usage = usage
  }

  /** Writes events as they come, as long as somebody reads them. */
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
      for (const chunk of event.read) this.#note(chunk)
      this.#meter.pass(event)
      this.#writeOut()
      this.#writer.pass(event.passage)
      return
    }
    this.#note(event.chunk)
    for (const { delta } of event.chunk.choices) this.#meter.say(delta)
    // A usage chunk waits for the end, where there is one of it, and only when it was asked for.
    if (!isUsageOnly(event.chunk)) this.#texts.push(event.text ?? JSON.stringify(event.chunk))
  }

  #writeOut(): void {
    this.#writer.write(...this.#texts.splice(0))
  }

  #note(chunk: Chunk): void {
    const reason = chunk.choices[0]?.finish_reason
    if (reason) this.reason = recordedReason(reason)
    this.#usage?.note(chunk)
    this.#meter.note(chunk)
  }
}
