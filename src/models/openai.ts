import type { Readable } from 'node:stream'
import { createParser } from 'eventsource-parser'
import type { Dispatcher, Pool } from 'undici'
import type { Chunk, Completion } from '../chat/completion.ts'
import type { Upstream } from '../config.ts'
import type { ApiError } from '../errors.ts'
import type { Model, ModelEvent, ModelReply } from './model.ts'
import { failureOf, refusalOf, upstreamFailure } from './upstream-error.ts'

/** A model behind an OpenAI-compatible HTTP service, and the connections to it. */
export interface OpenAiModel extends Model {
  close(): Promise<void>
}

/** Connections to one upstream: more than this many answers at once wait for one another. */
const maximumConnections = 1024

/** How long an upstream may take to begin its answer, and to go on with it. Milliseconds. */
const timeouts = { connect: 10_000, headers: 300_000, body: 300_000 }

/** The largest whole answer that is taken from an upstream. Bytes. */
const maximumAnswer = 64 * 1024 ** 2

/** Relays to any service that answers `POST {baseUrl}/chat/completions` as OpenAI does. Redirects are not followed. */
export function createOpenAiModel(upstream: Upstream): OpenAiModel {
  const url = new URL(`${upstream.baseUrl}/chat/completions`)
  const headers = {
    'content-type': 'application/json',
    ...(upstream.apiKey === undefined ? {} : { authorization: `Bearer ${upstream.apiKey}` }),
  }
  let pool: Promise<Pool> | undefined

  const post = async (body: unknown, signal: AbortSignal): Promise<Dispatcher.ResponseData> => {
    // Loaded with the first request, so that a service without an upstream starts without it.
    pool ??= import('undici').then(
      ({ Pool }) => new Pool(url.origin, { connections: maximumConnections, connect: { timeout: timeouts.connect } }),
    )
    const connections = await pool
    try {
      const response = await connections.request({
        path: url.pathname,
        method: 'POST',
        headers,
        body: JSON.stringify(body),
        signal,
        headersTimeout: timeouts.headers,
        bodyTimeout: timeouts.body,
      })
      if (response.statusCode === 200) return response
      throw await refusalOf(response, upstream.apiKey)
    } catch (error) {
      throw failureOf(error)
    }
  }

  return {
    ignoredParameters: new Set(),

    async complete(request, signal): Promise<ModelReply> {
      const response = await post(request.body, signal)
      try {
        const text = await readText(response)
        const completion = parseUpstream(text)
        if (!isCompletion(completion)) throw garbage()
        return { completion, text }
      } catch (error) {
        throw failureOf(error)
      }
    },

    async *stream(request, signal): AsyncIterable<readonly ModelEvent[]> {
      const response = await post(request.body, signal)
      try {
        yield* readEvents(response.body, request.body.n ?? 1)
      } catch (error) {
        throw failureOf(error)
      }
    },

    async close() {
      await (await pool)?.close()
    },
  }
}

/**
 * Reads a server-sent event stream (WHATWG HTML, section 9.2) into groups of chunks, one group to a network read.
 * What came before a failure is yielded before it is thrown.
 */
async function* readEvents(body: Readable, choices: number): AsyncIterable<readonly ModelEvent[]> {
  const progress = new Progress(choices)
  const decoder = new TextDecoder()
  let texts: string[] = []
  const parser = createParser({ onEvent: ({ data }) => texts.push(data) })
  let isDone = false
  // Whatever fails is thrown to the reader; a body that is destroyed tells of it once more.
  body.on('error', () => {})
  try {
    for await (const bytes of body.iterator({ destroyOnReturn: false })) {
      parser.feed(decoder.decode(bytes, { stream: true }))
      if (texts.length === 0) continue
      const group = readGroup(texts)
      texts = []
      progress.note(group.events)
      if (group.events.length > 0) yield group.events
      if (group.failure) throw group.failure
      isDone = group.isDone
      if (isDone) break
    }
    if (!isDone) {
      // A last event may lack its blank line; a piece of one is none.
      parser.feed(`${decoder.decode()}\n\n`)
      const group = readGroup(texts.filter((text) => text === done || isJson(text)))
      progress.note(group.events)
      if (group.events.length > 0) yield group.events
      if (group.failure) throw group.failure
      isDone = group.isDone
    }
    if (isDone ? !progress.hasBegun : !progress.isComplete) throw brokenOff()
  } finally {
    if (isDone) readOn(body)
    else body.destroy()
  }
}

/** The data of the event that ends a stream. */
const done = '[DONE]'

/** What arrived together: its events up to the end, or up to what cannot be one. */
interface Group {
  readonly events: readonly ModelEvent[]
  readonly isDone: boolean
  readonly failure?: unknown
}

function readGroup(texts: readonly string[]): Group {
  const events: ModelEvent[] = []
  for (const text of texts) {
    if (text === done) return { events, isDone: true }
    try {
      events.push(readEvent(text))
    } catch (failure) {
      return { events, isDone: false, failure }
    }
  }
  return { events, isDone: false }
}

function readEvent(text: string): ModelEvent {
  const chunk = parseUpstream(text)
  if (!isChunk(chunk)) throw garbage()
  return { chunk, text }
}

/** Milliseconds that an upstream has to end its answer after it has said that it is over. */
const readOnFor = 1000

/** Reads an answer that is over to its last byte, so that its connection serves the next request. */
function readOn(body: Readable): void {
  if (body.closed) return
  const giveUp = setTimeout(() => body.destroy(), readOnFor)
  body.once('close', () => clearTimeout(giveUp))
  body.resume()
}

/** Which choices of a stream have begun, and which have said why they ended. */
class Progress {
  readonly #choices: number
  readonly #open = new Set<number>()
  readonly #finished = new Set<number>()

  /** @param choices how many were asked for */
  constructor(choices: number) {
    this.#choices = choices
  }

  note(events: readonly ModelEvent[]): void {
    for (const { chunk } of events) {
      for (const { index, finish_reason } of chunk.choices) {
        if (finish_reason) this.#finished.add(index)
        else this.#open.add(index)
      }
    }
  }

  get hasBegun(): boolean {
    return this.#open.size + this.#finished.size > 0
  }

  get isComplete(): boolean {
    return this.#finished.size >= this.#choices && [...this.#open].every((index) => this.#finished.has(index))
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** Parses what an upstream sent; an `{"error": …}` in a 200 is a failure all the same. */
function parseUpstream(text: string): unknown {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw garbage()
  }
  if (typeof value === 'object' && value !== null && 'error' in value && value.error) {
    throw upstreamFailure(502, 'upstream_error', 'The model reported an error instead of an answer. Ask again.')
  }
  return value
}

async function readText({ body }: Dispatcher.ResponseData): Promise<string> {
  const pieces: Buffer[] = []
  let size = 0
  for await (const piece of body) {
    size += piece.length
    if (size > maximumAnswer) throw upstreamFailure(502, 'upstream_error', 'The answer of the model is too large.')
    pieces.push(piece)
  }
  return Buffer.concat(pieces).toString('utf8')
}

/** Tells whether a value is a completion, as far as this service reads one; the rest is the upstream's business. */
function isCompletion(value: unknown): value is Completion {
  return hasChoices(value) && value.choices.length > 0
}

/** Tells whether a value is a chunk, as far as this service reads one. */
function isChunk(value: unknown): value is Chunk {
  return hasChoices(value)
}

function hasChoices(value: unknown): value is { choices: unknown[] } {
  return (
    typeof value === 'object' &&
    value !== null &&
    'choices' in value &&
    Array.isArray(value.choices) &&
    value.choices.every((choice) => typeof choice === 'object' && choice !== null)
  )
}

function brokenOff(): ApiError {
  return upstreamFailure(502, 'upstream_error', 'The model broke off before its answer was complete. Ask again.')
}

function garbage(): ApiError {
  return upstreamFailure(502, 'upstream_error', 'The answer of the model was not understood. Ask again.')
}
