import type { Persona } from '../characters/prompt.ts'
import type { Chunk, Completion, CompletionRequest } from '../chat/completion.ts'

/** What a model is asked. */
export interface ModelRequest {
  /** The caller's request in OpenAI's shape, with the composed messages and without the fields that are only ours. */
  readonly body: CompletionRequest
  /** Who is being played, for models that play from the card itself. */
  readonly persona: Persona
}

/** A whole reply. */
export interface ModelReply {
  readonly completion: Completion
  /** The upstream's own JSON text of it, when there is one: it is what the caller gets, unchanged. */
  readonly text?: string
}

/** One event of a streamed reply. */
export interface ModelEvent {
  readonly chunk: Chunk
  /** The upstream's own JSON text of it, when there is one: it is what the caller gets, unchanged. */
  readonly text?: string
}

/**
 * A language model, or a stand-in for one. All it has to do; it speaks OpenAI's shapes, so that the commonest
 * upstreams pass through with nothing lost. Failures are thrown as `ApiError`; an aborted signal ends the work at once.
 */
export interface Model {
  /** Request parameters that this model cannot honour; they are named to the caller when sent. */
  readonly ignoredParameters: ReadonlySet<string>
  complete(request: ModelRequest, signal: AbortSignal): Promise<ModelReply>
  /** Yields the events in groups that arrived together. A final usage chunk is welcome whether it was asked for or not. */
  stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<readonly ModelEvent[]>
}
