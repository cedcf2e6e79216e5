import { ApiError } from '../../errors.ts'
import type { ModelEvent, ModelReply, ModelRequest } from '../model.ts'
import { HeldAnswer, maxAnswerBytes, ownTurn, smallAnswerBytes, smallPieceBytes } from './answer.ts'
import { AnswerReader, chunkOf, type EventGroup } from './answer-reader.ts'
import { ChunkReader } from './chunk-reader.ts'
import { brokenOff, failureOf, invalidAnswer } from './errors.ts'
import { joinChunks } from './join-chunks.ts'
import type { UpstreamAnswer } from './streamless-response.ts'

/** Options for reading an answer. */
export interface ReadOptions {
  /** The number of choices in the request. */
  readonly choices: number
  /** Texts that no error may repeat. */
  readonly secrets: readonly string[]
  readonly openHeld?: ModelRequest['openHeld']
}

/**
 * Reads an answer, JSON or server-sent events (WHATWG HTML, section 9.2), as events. Events that arrived together are one group.
 * Events that arrived before a failure are yielded before the failure is thrown. Only the 503 drops events: those that arrived
 * together with the unfinished event.
 * @param answer resolves when the status and the headers of the answer have arrived
 * @param readAll whether to parse every event
 * @throws ApiError 502 for an invalid or too large event, and for an end without an answer; 503 if there is no room for an
 *   unfinished event. Before the choices have finished, also 502 for a broken connection, 504 for a timeout, and 499 if the client
 *   has left. An error in an event is thrown as `errorInside` translates it. If `answer` rejects, the function throws that error
 */
export async function* readEvents(
  answer: Promise<UpstreamAnswer>,
  readAll: boolean,
  { choices, secrets, openHeld }: ReadOptions,
): AsyncGenerator<readonly ModelEvent[], undefined> {
  const response = await answer
  const reader = new AnswerReader(readAll, secrets)
  using held = new HeldAnswer(openHeld)
  try {
    for await (const bytes of response) {
      const turn = reader.isJson ? undefined : ownTurn(bytes.length, smallPieceBytes)
      if (turn) await turn
      const group = reader.read(bytes)
      held.set(reader.unfinishedBytes)
      // This must be before the yield: after the last events, the reader may never resume this generator.
      if (group.isDone) response.drain()
      if (group.events.length > 0) yield group.events
      checkFailure(group)
      if (group.isDone) break
    }
    const last = reader.end()
    if (reader.reply) yield [{ chunk: chunkOf(reader.reply.completion) }]
    if (last.events.length > 0) yield last.events
    checkFailure(last)
  } catch (error) {
    failUnlessFinished(error, reader, choices)
  }
  checkEnd(reader)
}

/**
 * Reads an answer to its end, and returns it whole: without a promise if all of it has come already, as most answers do.
 * @throws ApiError as `readEvents` does; 502 for too long an answer
 */
export function readReply(response: UpstreamAnswer, options: ReadOptions): ModelReply | Promise<ModelReply> {
  const { choices, secrets } = options
  const reader = new AnswerReader(true, secrets, maxAnswerBytes)
  const events: ModelEvent[] = []
  const bytes = response.takeWhole?.(smallAnswerBytes)
  if (!bytes) return readPieces(response, options, reader, events)
  try {
    for (const group of [reader.read(bytes), reader.end()]) {
      events.push(...group.events)
      checkFailure(group)
    }
  } catch (error) {
    failUnlessFinished(error, reader, choices)
  }
  return replyFrom(reader, events, secrets)
}

async function readPieces(
  response: UpstreamAnswer,
  { choices, secrets, openHeld }: ReadOptions,
  reader: AnswerReader,
  events: ModelEvent[],
): Promise<ModelReply> {
  using held = new HeldAnswer(openHeld)
  try {
    for await (const bytes of response) {
      const group = reader.read(bytes)
      held.set(reader.unfinishedBytes)
      for (const event of group.events) events.push(event)
      checkFailure(group)
      if (!group.isDone) continue
      response.drain()
      break
    }
    const turn = ownTurn(reader.unfinishedBytes, smallAnswerBytes)
    if (turn) await turn
    const last = reader.end()
    for (const event of last.events) events.push(event)
    checkFailure(last)
  } catch (error) {
    failUnlessFinished(error, reader, choices)
  }
  return replyFrom(reader, events, secrets)
}

/** The reply of an answer that has ended: in its JSON, or in its events. */
function replyFrom(reader: AnswerReader, events: readonly ModelEvent[], secrets: readonly string[]): ModelReply {
  checkEnd(reader)
  if (reader.reply) return reader.reply
  const chunks = events.flatMap((event) => ('chunk' in event ? event.chunk : []))
  const read = new ChunkReader(secrets).completion(joinChunks(chunks))
  if (!read) throw invalidAnswer()
  return { completion: read.completion }
}

/** @throws the failure of a group, after its events were yielded */
function checkFailure({ failure }: EventGroup): void {
  if (failure) throw failure
}

/** A failure or a timeout of the connection loses nothing if every choice has its finish reason. @throws any other failure */
function failUnlessFinished(error: unknown, reader: AnswerReader, choices: number): void {
  const isOfConnection = !(error instanceof ApiError) || error.code === 'upstream_timeout'
  if (!isOfConnection || !reader.hasFinished(choices)) throw failureOf(error, true)
}

/** Some services send fewer choices than the request asked for. @throws ApiError 502 if not all that began have finished */
function checkEnd(reader: AnswerReader): void {
  if (!reader.reply && !reader.hasFinished(1)) throw brokenOff()
}
