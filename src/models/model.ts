import type { Composition, Persona } from '../characters/prompt/composition.ts'
import type { HeldBytes } from '../http/bytes-in-flight.ts'
import type { Chunk, Completion } from '../openai/completion.ts'
import type { CompletionRequest, Message } from '../openai/completion-request.ts'
import type { PromptSize } from '../openai/message-sizes.ts'
import type { Work } from '../work/work.ts'

/** A request to a model. */
export interface ModelRequest {
  /**
   * The caller's request in OpenAI's shape, with the composed messages, and without the fields that only Conservatory knows. If
   * there is `messagesJson`, the first read of `messages` parses it.
   */
  readonly body: CompletionRequest
  /**
   * The JSON of `body.messages`, if a worker has composed a large prompt. An adapter that sends JSON sends these bytes, and does
   * not read `body.messages`.
   */
  readonly messagesJson?: Uint8Array | undefined
  /** The character, for models that answer from the card itself. */
  readonly persona: Persona
  /**
   * The parts of the prompt, for models with `readsParts`. Without these parts, such a model uses the card's texts, but no lore.
   */
  readonly composition?: ComposedParts | undefined
  /** Runs computations whose time grows with the request. */
  readonly work: Work
  /** Whether every event of a stream must be parsed. Otherwise events may pass unread. */
  readonly readAll?: boolean | undefined
  /** Whether the reply is written from the parsed answer. Then the bytes of a whole answer are not needed. */
  readonly isRewritten?: boolean | undefined
  /** Opens a count for the bytes of a large answer. Without this function, the bytes are not counted. */
  readonly openHeld?: (() => HeldBytes) | undefined
  /**
   * Called with each parameter that the model ignores or changes for this request. The calls come before the answer or before the
   * first event of a stream. Only the calls for further choices of a stream may come later.
   */
  readonly onIgnored?: (parameter: string) => void
  /**
   * Called with true when the upstream has the whole request, or when a model in this process begins its answer. Called with
   * false when an attempt has failed.
   */
  readonly onSent?: ((isSent: boolean) => void) | undefined
  /** Headers with the W3C trace context for the upstream. A traced attempt replaces these headers. */
  readonly trace?: Readonly<Record<string, string>> | undefined
}

/**
 * The parts of a composed prompt that a model may use: the sections, the lore that fired, and the counts of parts that did not
 * fit.
 */
export type ComposedParts = Pick<Composition, 'sections' | 'lore' | 'dropped'>

/** The messages that a model got, for counts of their tokens. */
export interface SentPrompt {
  /** If a worker has composed them, the first read parses their JSON. */
  readonly messages: readonly Message[]
  /** The JSON of messages that a worker has composed, and their size. */
  readonly messagesJson?: Uint8Array | undefined
  readonly size?: PromptSize | undefined
}

/** A whole reply. */
export interface ModelReply {
  readonly completion: Completion
  /**
   * The upstream's own JSON, if the adapter relays it. A chat completion sends this JSON unchanged, or replaces only an empty
   * usage.
   */
  readonly bytes?: Buffer
}

/** One parsed event of a streamed reply, or several consecutive events that pass unchanged. */
export type ModelEvent = ChunkEvent | Passage

/** An event that has been parsed. */
export interface ChunkEvent {
  readonly chunk: Chunk
  /**
   * The upstream's own JSON text, if the event has one. A missing role has been added to it. If the chunk has no usage, a chat
   * completion sends this text unchanged.
   */
  readonly text?: string
}

/**
 * Whole events as the upstream sent them. They have only words of the model: an error, a usage, a finish reason, and the beginning
 * of a choice or a call are never in a passage.
 */
export interface Passage {
  readonly passage: Buffer
  /** The number of events. */
  readonly events: number
  /** Bytes of the model's words in these events. */
  readonly words: number
}

/**
 * The contract of adapters: a language model, or a stand-in for a language model. Requests and replies have OpenAI's shapes, so
 * that the answers of most upstreams pass through unchanged. `complete` and `stream` throw an `ApiError` for a failure. An
 * aborted signal ends the work.
 */
export interface Model {
  /**
   * The request parameters that this model never honours. `x-ignored-params` names them. Null if the model honours all
   * parameters.
   */
  readonly ignoredParameters: Pick<ReadonlySet<string>, 'has'> | null
  /** Whether this model answers from `ModelRequest.composition`. */
  readonly readsParts?: boolean
  complete(request: ModelRequest, signal: AbortSignal): Promise<ModelReply>
  /**
   * Yields the events in groups. The events of a group have arrived together. The last event may be a usage chunk that the
   * request did not ask for.
   */
  stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<readonly ModelEvent[]>
  /** The model ids that the upstream lists. Without such a list, this method is missing or returns no ids. */
  list?(signal: AbortSignal): Promise<readonly string[]>
  /** Waits for requests in flight or ends them. Then closes the connections or frees the memory. */
  close?(): Promise<void>
}
