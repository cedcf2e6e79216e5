import type { Composition } from '../characters/prompt/composition.ts'
import type { Persona } from '../characters/prompt/settings.ts'
import type { HeldBytes } from '../http/bytes-in-flight.ts'
import type { Chunk, Completion } from '../openai/completion.ts'
import type { CompletionRequest } from '../openai/completion-request.ts'
import type { Work } from '../work.ts'

/** A request to a model. */
export interface ModelRequest {
  /** The caller's request in OpenAI's shape, with the composed messages, and without this service's own fields. */
  readonly body: CompletionRequest
  /** The character, for models that answer from the card itself. */
  readonly persona: Persona
  /** The parts of the prompt, for the same models. Without it they use the card's texts without lore, and the messages. */
  readonly composition?: ComposedParts
  /** Runs computations whose time grows with the request, in steps. */
  readonly work: Work
  /** Whether every event of a stream must be parsed, instead of passing unread. */
  readonly readAll?: boolean | undefined
  /** Starts to count the bytes of an upstream's answer that wait here; without it they are not counted. */
  readonly openHeld?: (() => HeldBytes) | undefined
  /**
   * Called with each parameter that this request cannot have honoured as it was sent. All calls come before the answer, or
   * before its first event.
   */
  readonly onIgnored?: (parameter: string) => void
  /** W3C trace context as headers for the upstream: the caller's, until an attempt sets its own. */
  readonly trace?: Readonly<Record<string, string>> | undefined
}

/** The parts of a composed prompt that a model may use: its sections, the lore that fired, and how much did not fit. */
export type ComposedParts = Pick<Composition, 'sections' | 'lore' | 'dropped'>

/** A whole reply. */
export interface ModelReply {
  readonly completion: Completion
  /** The upstream's own JSON, where there is one: the caller gets it unchanged. */
  readonly bytes?: Buffer
}

/** One event of a streamed reply, or several that pass unread. */
export type ModelEvent = ChunkEvent | Passage

/** An event that has been parsed. */
export interface ChunkEvent {
  readonly chunk: Chunk
  /** The upstream's own JSON text, where there is one: the caller gets it unchanged. */
  readonly text?: string
}

/** Whole events as the upstream sent them. An error, a chunk of usage alone and the end of the stream are never in it. */
export interface Passage {
  readonly passage: Buffer
  /** The number of events. */
  readonly events: number
  /** Bytes of the first event. */
  readonly firstLength: number
  /** The parsed chunks of some of the events, which begin or end a choice or have usage. */
  readonly read: readonly Chunk[]
}

/**
 * The contract of adapters: a language model, or a stand-in for one. It has OpenAI's shapes, so that the answers of most upstreams
 * pass through unchanged. Failures are thrown as `ApiError`; an aborted signal ends the work at once.
 */
export interface Model {
  /** Request parameters that this model never honours; callers that send one get its name. Null: the model honours all. */
  readonly ignoredParameters: Pick<ReadonlySet<string>, 'has'> | null
  complete(request: ModelRequest, signal: AbortSignal): Promise<ModelReply>
  /** Yields the events in groups that arrived together. It may end with a usage chunk even if the request did not ask for one. */
  stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<readonly ModelEvent[]>
  /** The model ids that the upstream lists; absent where there is no such list. */
  list?(signal: AbortSignal): Promise<readonly string[]>
  /** Waits for requests in flight, then closes the connections. */
  close?(): Promise<void>
}
