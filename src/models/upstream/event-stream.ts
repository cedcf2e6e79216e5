import { ApiError } from '../../errors.ts'
import type { ModelEvent, ModelRequest } from '../model.ts'
import { brokenOff, failureOf } from './errors.ts'
import { type EventGroup, EventReader } from './event-reader.ts'
import { HeldAnswer } from './held-answer.ts'
import { ownTurn, smallPieceBytes } from './own-turn.ts'
import type { UpstreamAnswer } from './streamless-response.ts'

/** Options for reading a stream. */
export interface EventStreamOptions {
  /** The number of choices in the request. */
  readonly choices: number
  /** Whether every event must be parsed; otherwise events that the service does not need pass unread. */
  readonly readAll: boolean
  /** Texts that no error may repeat. */
  readonly secrets: readonly string[]
  readonly openHeld?: ModelRequest['openHeld']
}

/**
 * Reads a server-sent event stream (WHATWG HTML, section 9.2). Events that arrived together are one group. Events that arrived
 * before a failure are yielded before the failure is thrown. Only the 503 drops events: those that arrived together with the
 * unfinished event.
 * @param answer resolves when the status and the headers of the stream have arrived
 * @throws ApiError 502 for an invalid or too large event; 503 if there is no room for an unfinished event. Before the choices
 *   have finished, also 502 for the end of the stream and for a broken connection, 504 for a timeout, and 499 if the client has
 *   left. An error in an event is thrown as `errorInside` translates it. If `answer` rejects, the function throws that error.
 */
export async function* readEvents(
  answer: Promise<UpstreamAnswer>,
  { choices, readAll, secrets, openHeld }: EventStreamOptions,
): AsyncGenerator<readonly ModelEvent[], undefined> {
  const response = await answer
  const progress = new ChoiceProgress(choices)
  const reader = new EventReader(readAll, secrets)
  using held = new HeldAnswer(openHeld)
  try {
    for await (const bytes of response) {
      const turn = ownTurn(bytes.length, smallPieceBytes)
      if (turn) await turn
      const group = reader.read(bytes)
      held.set(reader.unfinishedBytes)
      progress.add(group)
      // This must be before the yield: after the last events, the reader may never resume this generator.
      if (group.isDone) response.drain()
      if (group.events.length > 0) yield group.events
      checkFailure(group)
      if (group.isDone) break
    }
  } catch (error) {
    if (losesNothing(error, progress)) return
    throw failureOf(error, true)
  }
  if (!progress.isDone) yield* lastEvents(reader, progress)
  if (progress.isIncomplete) throw brokenOff()
}

/** Whether a failure or a timeout of the connection loses nothing, because every choice has its finish reason. */
function losesNothing(error: unknown, { isComplete }: ChoiceProgress): boolean {
  return isComplete && (!(error instanceof ApiError) || error.code === 'upstream_timeout')
}

/** The events that are complete only at the end of the connection: the last event may have no blank line after it. */
function* lastEvents(reader: EventReader, progress: ChoiceProgress): Iterable<readonly ModelEvent[]> {
  const group = reader.end()
  progress.add(group)
  if (group.events.length > 0) yield group.events
  checkFailure(group)
}

/** @throws the failure of a group, after its events were yielded */
function checkFailure({ failure }: EventGroup): void {
  if (failure) throw failure
}

/** Which choices of a stream have begun, and which have their finish reason. */
class ChoiceProgress {
  /** Whether `[DONE]` has come. */
  isDone = false
  readonly #choices: number
  readonly #open = new Set<number>()
  readonly #finished = new Set<number>()

  /** @param choices the number of choices in the request */
  constructor(choices: number) {
    this.#choices = choices
  }

  add({ events, isDone }: EventGroup): void {
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

  /**
   * Whether an ended stream is incomplete. Some services send fewer choices than the request asked for, and then `[DONE]`. A
   * stream with `[DONE]` is complete if it has at least one choice, and all its choices have their finish reason.
   */
  get isIncomplete(): boolean {
    return this.isDone ? !this.#hasFinished(1) : !this.isComplete
  }

  /** Whether every choice has its finish reason. */
  get isComplete(): boolean {
    return this.#hasFinished(this.#choices)
  }

  /** Whether at least `minCount` choices, and all that have begun, have their finish reason. */
  #hasFinished(minCount: number): boolean {
    return this.#finished.size >= minCount && [...this.#open].every((index) => this.#finished.has(index))
  }
}
