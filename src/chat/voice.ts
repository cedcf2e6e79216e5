import { type ApiError, openAiErrorBody } from '../errors.ts'
import type { ChunkEvent, ModelReply } from '../models/model.ts'
import { type Chunk, isEmptyUsage, isUsageOnly, type Usage } from '../openai/completion.ts'
import type { CompletionRequest } from '../openai/completion-request.ts'
import { eventOf } from './stream-writer.ts'
import { wholeOf, withUsage } from './whole.ts'

/** What the reply header `x-ignored-params` needs to know of the request that was sent, which may be none of chat. */
export interface SentNames {
  /** Fields of the request that no model is asked with. */
  readonly ignored: readonly string[]
  /** The name of a field as it was sent, by its name in chat. */
  nameOf(field: string): string
}

/** The names of a chat request. */
export const chatNames: SentNames = { ignored: [], nameOf: (field) => field }

/** How an interface writes what a model answers: one for each request. */
export interface Voice extends SentNames {
  /**
   * Whether the answer ends with its usage, estimated where the model does not tell it. Only then is every event of a stream
   * read; without it events may pass as they came.
   */
  readonly tellsUsage: boolean
  /** The body of a whole answer. @param usage what the model told, else an estimate where one is to be told */
  whole(reply: ModelReply, usage: Usage | undefined): string | Buffer
  /** What one event becomes, as server-sent events; empty where the caller is told nothing of it. */
  chunk(event: ChunkEvent): string
  /** The end of a stream in which every choice has ended. @param usage as a chunk of usage alone; null where it is not told */
  end(usage: Chunk | null): string
  /** The end of a stream that failed after it had begun. */
  failure(error: ApiError): string
}

/** The voice of `POST /chat/completions`: OpenAI's completions and chunks, as the model sent them where it sent such. */
export function chatVoice({ stream_options: options }: CompletionRequest): Voice {
  return {
    ...chatNames,
    tellsUsage: options?.include_usage === true,
    whole: (reply, usage) => (usage && isEmptyUsage(reply.completion.usage) ? withUsage(reply, usage) : wholeOf(reply)),
    chunk: ({ chunk, text }) => {
      // Usage waits for the end, where there is one chunk of it, and only when it was asked for.
      if (chunk.usage == null) return eventOf(text ?? JSON.stringify(chunk))
      const { usage: _usage, ...rest } = chunk
      return isUsageOnly(chunk) ? '' : eventOf(JSON.stringify(rest))
    },
    end: (usage) => `${usage ? eventOf(JSON.stringify(usage)) : ''}${eventOf('[DONE]')}`,
    failure: (error) => eventOf(JSON.stringify(openAiErrorBody(error))),
  }
}
