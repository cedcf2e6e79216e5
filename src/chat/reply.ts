import type { FastifyReply } from 'fastify'
import type { Clock } from '../clock.ts'
import { clientGone, toApiError } from '../errors.ts'
import type { ModelEvent } from '../models/model.ts'
import type { Chunk } from '../openai/completion.ts'
import { type FinishReason, recordedReason } from '../openai/finish-reasons.ts'
import type { Meter } from '../usage/meter.ts'
import type { End } from '../usage/outcome.ts'
import { commentOf, StreamWriter } from './stream-writer.ts'
import type { UsageWatch } from './usage.ts'
import type { Voice } from './voice.ts'

/** What a stream needs besides its events. */
export interface StreamOptions {
  readonly voice: Voice
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
  /** Tells, when all has come, what of the prompt the upstream has read, `<theirs>/<ours>`, where that was too little. */
  readonly truncation: () => Promise<string | null> | undefined
}

/**
 * Sends a model's events as server-sent events, and resolves when that is over. The status line waits for the first of
 * them, so that a failure before it is thrown and becomes a real HTTP error; only after `keepaliveMs` of silence does
 * the reply begin without one. A failure after that is the end of the stream, in the words of the voice.
 * @param opening the events, once the first of them is there
 */
export async function sendEvents(
  reply: FastifyReply,
  opening: Promise<AsyncIterable<readonly ModelEvent[]>>,
  { voice, usage, meter, keepaliveMs, clock, onEnd, truncation }: StreamOptions,
): Promise<void> {
  const writer = new StreamWriter(reply, keepaliveMs, clock)
  const tellEnd = (end: End) => onEnd(writer.isGone ? clientGone() : end)
  try {
    const relay = new Relay(writer, voice, meter, usage)
    await relay.passAll(await opening)
    const used = usage && !writer.isGone ? await usage.chunk() : null
    if (used) meter.setUsage(used.usage, false)
    // Without promises nothing waits, so that the end leaves in one piece with what came before it.
    const looking = truncation()
    const truncated = looking ? await looking : null
    const kept = tellEnd(relay.reason)
    if (kept) await kept
    writer.end((truncated === null ? '' : commentOf(`upstream truncated ${truncated}`)) + voice.end(used))
  } catch (thrown) {
    const failure = toApiError(thrown)
    if (!writer.hasBegun) throw failure
    await tellEnd(failure)
    writer.end(voice.failure(failure))
  } finally {
    writer.close()
  }
}

/** Passes a model's events on to the client, and takes note of what they say. */
class Relay {
  /** Why the model ended, as far as it has said. */
  reason: FinishReason = 'stop'
  readonly #writer: StreamWriter
  readonly #voice: Voice
  readonly #meter: Meter
  readonly #usage: UsageWatch | null
  /** Events that have been read, and not been written yet. */
  #unwritten = ''

  constructor(writer: StreamWriter, voice: Voice, meter: Meter, usage: UsageWatch | null) {
    this.#writer = writer
    this.#voice = voice
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
      this.#meter.countPassage(event)
      this.#writeOut()
      this.#writer.pass(event.passage)
      return
    }
    this.#note(event.chunk)
    for (const { delta } of event.chunk.choices) this.#meter.countText(delta)
    this.#unwritten += this.#voice.chunk(event)
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
