import { ApiError } from '../../errors.ts'
import type { ModelEvent, ModelRequest } from '../model.ts'
import type { UpstreamAnswer } from './connections.ts'
import { brokenOff, failureOf } from './errors.ts'
import { type EventGroup, EventReader } from './event-reader.ts'
import { answerScheduler, unitsOf } from './turn-scheduler.ts'

/** What is asked of a stream besides its events. */
export interface EventStreamOptions {
  /** How many choices were asked for. */
  readonly choices: number
  /** Whether every chunk must be read; otherwise events that say nothing the service must know pass unread. */
  readonly readAll: boolean
  /** What no error may repeat. */
  readonly secrets: readonly string[]
  readonly openHeld?: ModelRequest['openHeld']
}

/**
 * Reads a server-sent event stream (WHATWG HTML, section 9.2) into groups of events, one group to a network read.
 * What came before a failure is yielded before it is thrown.
 * @param answer resolves when the stream's status and headers are there
 * @throws ApiError for an error in an event as if it had come with its status, 502 for nonsense in one, for an end before
 *   every choice had finished, and for a connection that breaks; and what the answer rejects with
 */
export async function* readEvents(
  answer: Promise<UpstreamAnswer>,
  { choices, readAll, secrets, openHeld }: EventStreamOptions,
): AsyncGenerator<readonly ModelEvent[], undefined> {
  const response = await answer
  const progress = new Progress(choices)
  const reader = new EventReader(readAll, secrets)
  const held = openHeld?.()
  try {
    for await (const bytes of response) {
      await answerScheduler.take(unitsOf(bytes.length + reader.unended))
      const group = reader.read(bytes)
      held?.set(2 * reader.unended)
      progress.note(group)
      // Before the last events go out: whoever has them may not ask for more.
      if (group.isDone) response.drain()
      if (group.events.length > 0) yield group.events
      if (group.failure) throw group.failure
      if (group.isDone) break
    }
  } catch (error) {
    if (losesNothing(error, progress)) return
    throw failureOf(error, true)
  } finally {
    held?.release()
  }
  if (!progress.isDone) yield* lastEvents(reader, progress)
  if (progress.isCut) throw brokenOff()
}

/** After every choice has said why it ended, a connection that breaks or falls silent takes nothing with it. */
function losesNothing(error: unknown, { isComplete }: Progress): boolean {
  return isComplete && (!(error instanceof ApiError) || error.code === 'upstream_timeout')
}

/** What the connection's end leaves of events. */
function* lastEvents(reader: EventReader, progress: Progress): Iterable<readonly ModelEvent[]> {
  const group = reader.end()
  progress.note(group)
  if (group.events.length > 0) yield group.events
  if (group.failure) throw group.failure
}

/** Which choices of a stream have begun, and which have said why they ended. */
class Progress {
  /** Whether the event came that ends a stream. */
  isDone = false
  readonly #choices: number
  readonly #open = new Set<number>()
  readonly #finished = new Set<number>()

  /** @param choices how many were asked for */
  constructor(choices: number) {
    this.#choices = choices
  }

  note({ events, isDone }: EventGroup): void {
    this.isDone = isDone
    for (const event of events) {
      for (const { choices } of 'passage' in event ? event.read : [event.chunk]) {
        for (const { index, finish_reason } of choices) {
          if (finish_reason) this.#finished.add(index)
          else this.#open.add(index)
        }
      }
    }
  }

  /** Whether a stream that has ended has lost something. Some services give fewer choices than were asked for, and say that they are done. */
  get isCut(): boolean {
    return this.isDone ? !this.#hasFinished(1) : !this.isComplete
  }

  /** Whether every choice has said why it ended. */
  get isComplete(): boolean {
    return this.#hasFinished(this.#choices)
  }

  /** Whether so many choices at least, and all that have begun, have said why they ended. */
  #hasFinished(least: number): boolean {
    return this.#finished.size >= least && [...this.#open].every((index) => this.#finished.has(index))
  }
}
