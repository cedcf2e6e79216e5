import type { Composition } from '../characters/prompt/composition.ts'
import type { Persona } from '../characters/prompt/settings.ts'
import type { HeldBytes } from '../http/bytes-in-flight.ts'
import type { Chunk, Completion } from '../openai/completion.ts'
import type { CompletionRequest } from '../openai/completion-request.ts'
import type { Work } from '../work.ts'

/** What a model is asked. */
export interface ModelRequest {
  /** The caller's request in OpenAI's shape, with the composed messages and without the fields that are only ours. */
  readonly body: CompletionRequest
  /** Who is being played, for models that play from the card itself. */
  readonly persona: Persona
  /** What the prompt was composed of, for the same models; without it, of the card's texts but no lore, and of the messages. */
  readonly composition?: ComposedParts
  /** What takes the steps of a computation that grows with the request. */
  readonly work: Work
  /** Whether every event of a stream is to be read, and none passes as it came. */
  readonly readAll?: boolean | undefined
  /** Opens a count of the bytes that an upstream's answer holds until it is passed on; without it they are not counted. */
  readonly openHeld?: (() => HeldBytes) | undefined
  /**
   * Told of each parameter that turns out, with this request, not to be honoured as it was sent; before the answer,
   * or before its first event.
   */
  readonly onIgnored?: (parameter: string) => void
  /** W3C trace context, as headers that go upstream; of the caller's request until a try at a model has its own. */
  readonly trace?: Readonly<Record<string, string>> | undefined
}

/** What of a composed prompt a model is told: its sections, the lore that fired, and how much did not fit. */
export type ComposedParts = Pick<Composition, 'sections' | 'lore' | 'dropped'>

/** A whole reply. */
export interface ModelReply {
  readonly completion: Completion
  /** The upstream's own JSON of it, when there is one: it is what the caller gets, unchanged. */
  readonly bytes?: Buffer
}

/** One event of a streamed reply, or several that pass as they came. */
export type ModelEvent = ChunkEvent | Passage

/** An event that has been read. */
export interface ChunkEvent {
  readonly chunk: Chunk
  /** The upstream's own JSON text of it, when there is one: it is what the caller gets, unchanged. */
  readonly text?: string
}

/** Whole events as the upstream sent them: no error, no chunk of usage alone, and not the end. */
export interface Passage {
  readonly passage: Buffer
  /** How many events these are. */
  readonly events: number
  /** Bytes of the first of them. */
  readonly firstLength: number
  /** Those of them that have been read, because they begin or end a choice or tell of usage. */
  readonly read: readonly Chunk[]
}

/**
 * A language model, or a stand-in for one. All it has to do; it speaks OpenAI's shapes, so that the commonest
 * upstreams pass through with nothing lost. Failures are thrown as `ApiError`; an aborted signal ends the work at once.
 */
export interface Model {
  /** Request parameters that this model never honours; they are named to the caller when sent. Null: it honours all. */
  readonly ignoredParameters: Pick<ReadonlySet<string>, 'has'> | null
  complete(request: ModelRequest, signal: AbortSignal): Promise<ModelReply>
  /** Yields the events in groups that arrived together. A final usage chunk is welcome whether it was asked for or not. */
  stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<readonly ModelEvent[]>
  /** The ids that the upstream lists as its models; absent where there is no such list. */
  list?(signal: AbortSignal): Promise<readonly string[]>
  /** Lets what is under way end, and closes the connections. */
  close?(): Promise<void>
}
