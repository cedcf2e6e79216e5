import { type ApiError, openAiErrorBody } from '../errors.ts'
import type { ChunkEvent, ModelReply } from '../models/model.ts'
import { type Chunk, isEmptyUsage, isUsageOnly, type Usage } from '../openai/completion.ts'
import type { CompletionRequest } from '../openai/completion-request.ts'

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

/** Server-sent events: a text, or pieces of which long ones are bytes. */
export type Events = string | readonly (string | Buffer)[]

/** One comment line, which clients ignore. */
export function commentOf(text: string): string {
  return `: ${text}\n\n`
}

/**
 * One server-sent event. Each line of data begins with the field's name (WHATWG HTML, section 9.2.6).
 * @param type the event's name, if it has one
 */
export function eventOf(data: string, type?: string): string {
  const lines = data.includes('\n') ? data.replaceAll('\n', '\ndata: ') : data
  return type === undefined ? `data: ${lines}\n\n` : `event: ${type}\ndata: ${lines}\n\n`
}

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
    whole: (reply, usage) =>
      usage && isEmptyUsage(reply.completion.usage) ? withUsage(reply, usage) : (reply.bytes ?? reply.completion),
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

/**
 * A `usage` property in JSON: null, or an object with at most one more level. The pattern matches nothing inside a JSON string,
 * because a quotation mark in a string has a backslash.
 */
const usageProperty = /"usage"\s*:\s*(null|\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})/g

/** The most bytes of an empty usage, and the most `usage` properties that are compared with it. Honest answers have one. */
const maxUsageLength = 4096
const maxProperties = 100

/** The bytes at the beginning and at the end of an answer in which the usage is searched for. An answer may have 16 MiB. */
const searchedBytes = 64 * 1024

/**
 * Replaces the empty usage of a whole answer. If the empty usage is found in the upstream's bytes, the other bytes stay
 * unchanged, and the result is the pieces of the new answer. It is not searched for behind many other usages, in the middle of a
 * long answer, or if it is long.
 */
export function withUsage({ bytes, completion }: ModelReply, usage: Usage): readonly Buffer[] | object {
  const empty = JSON.stringify(completion.usage) ?? ''
  if (bytes && empty.length <= maxUsageLength) {
    let left = maxProperties
    for (const { start, end, value } of usagesIn(bytes)) {
      if (value.length <= maxUsageLength && isSame(value.toString(), empty)) {
        const written = Buffer.from(`"usage":${JSON.stringify(usage)}`)
        return [bytes.subarray(0, start), written, bytes.subarray(end)]
      }
      if (--left === 0) break
    }
  }
  return { ...completion, usage }
}

/** The `usage` properties near the beginning and near the end of an answer, with their positions. */
function* usagesIn(bytes: Buffer) {
  const isShortAnswer = bytes.length <= 2 * searchedBytes
  for (const from of isShortAnswer ? [0] : [0, bytes.length - searchedBytes]) {
    // In Latin-1, each byte is one character, so the positions in the text are the positions of the bytes.
    const text = bytes.toString('latin1', from, isShortAnswer ? bytes.length : from + searchedBytes)
    for (const { index, 0: property, 1: value = '' } of text.matchAll(usageProperty)) {
      const end = from + index + property.length
      yield { start: from + index, end, value: bytes.subarray(end - value.length, end) }
    }
  }
}

function isSame(json: string, written: string): boolean {
  try {
    return JSON.stringify(JSON.parse(json)) === written
  } catch {
    return false
  }
}
