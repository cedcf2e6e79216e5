import { type ApiError, openAiErrorBody } from '../errors.ts'
import type { ChunkEvent, ModelReply } from '../models/model.ts'
import { type Chunk, isEmptyUsage, isUsageOnly, type Usage } from '../openai/completion.ts'
import type { CompletionRequest } from '../openai/completion-request.ts'
import { type Events, eventOf } from './stream-writer.ts'
import { wholeOf, withUsage } from './whole-reply.ts'

/**
 * The field names of a request, as the client sent them: the names of chat or of the Responses API. The reply header
 * `x-ignored-params` uses these names.
 */
export interface SentNames {
  /** Fields of the request that no model gets. */
  readonly ignored: readonly string[]
  /** The name that the client sent for a field. @param field the field's name in chat */
  nameOf(field: string): string
}

/** The names of a chat request. */
export const chatNames: SentNames = { ignored: [], nameOf: (field) => field }

/** Writes a model's answer in the format of one interface. Each request has its own instance. */
export interface ReplyFormat extends SentNames {
  /**
   * Whether the answer ends with its usage. If the model sends no usage, the usage is estimated. For this, every event of a
   * stream must be parsed. Without usage, events may be passed on unread.
   */
  readonly includesUsage: boolean
  /** Whether `whole` always writes a new body, and never passes on the bytes of the upstream. */
  readonly isRewritten: boolean
  /**
   * The body of a whole answer: its JSON, the pieces of its JSON, or the object to write as JSON.
   * @param usage the model's usage, or an estimate if the answer must have a usage
   */
  whole(reply: ModelReply, usage: Usage | undefined): Buffer | readonly Buffer[] | object
  /** Prepares the events of a stream: writes what the events repeat of the request. */
  readonly prepare?: () => void
  /** The server-sent events for one event of the model. Empty if the client gets no event. */
  chunk(event: ChunkEvent): Events
  /** The end of a stream in which every choice has ended. @param usage a chunk with nothing but usage; null for no usage */
  end(usage: Chunk | null): Events
  /** The end of a stream that failed after it had begun. */
  failure(error: ApiError): Events
}

/**
 * The format of `POST /chat/completions`: OpenAI's completions and chunks. The upstream's own JSON stays unchanged, except usage.
 */
export function chatReplyFormat({ stream_options: options }: CompletionRequest): ReplyFormat {
  return {
    ...chatNames,
    includesUsage: options?.include_usage === true,
    isRewritten: false,
    whole: (reply, usage) => (usage && isEmptyUsage(reply.completion.usage) ? withUsage(reply, usage) : wholeOf(reply)),
    chunk: ({ chunk, text }) => {
      // Usage is sent in one chunk at the end, and only if the caller asked for it.
      if (chunk.usage == null) return eventOf(text ?? JSON.stringify(chunk))
      const { usage: _usage, ...rest } = chunk
      return isUsageOnly(chunk) ? '' : eventOf(JSON.stringify(rest))
    },
    end: (usage) => `${usage ? eventOf(JSON.stringify(usage)) : ''}${eventOf('[DONE]')}`,
    failure: (error) => eventOf(JSON.stringify(openAiErrorBody(error))),
  }
}
