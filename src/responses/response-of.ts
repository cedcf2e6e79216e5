import { field } from '../fields.ts'
import type { Usage } from '../openai/completion.ts'
import type { OutputItem, ResponseObject } from '../openai/response.ts'
import type { ResponseRequest } from '../openai/response-request.ts'
import { cutReason } from './output.ts'

/** The fields of a response that do not come from its request. */
export interface ResponseFields {
  readonly id: string
  /** Unix seconds. */
  readonly created: number
  readonly model: string
  readonly output: readonly OutputItem[]
}

/** The end of a response. */
export interface Ended {
  /** The finish reason of its choice. */
  readonly reason?: string | null | undefined
  readonly usage?: Usage | null | undefined
  readonly error?: { readonly code: string; readonly message: string }
}

/**
 * A response object, which repeats fields of its request (OpenAI's API reference, "The Response object").
 * @param ended undefined while the response is in progress
 */
export function responseOf(request: ResponseRequest, fields: ResponseFields, ended?: Ended): ResponseObject {
  return { ...ownFieldsOf(fields, ended), ...echoOf(request), ...sameFields }
}

/** The fields that every response has at its end. */
export const sameFields = {
  background: false,
  previous_response_id: null,
  store: false,
  truncation: 'disabled',
} as const

/** The fields at the beginning of a response, which do not come from its request. */
export function ownFieldsOf({ id, created, model, output }: ResponseFields, ended?: Ended) {
  const cut = ended?.error ? null : cutReason(ended?.reason)
  return {
    id,
    object: 'response' as const,
    created_at: created,
    status: statusOf(ended),
    error: ended?.error ?? null,
    incomplete_details: cut && { reason: cut },
    model,
    output: [...output],
    usage: ended?.usage ? usageOf(ended.usage) : null,
  }
}

/** The request's fields that its response repeats. */
export function echoOf({ text, reasoning, ...request }: ResponseRequest) {
  const verbosity = text?.verbosity
  return {
    instructions: request.instructions ?? null,
    max_output_tokens: request.max_output_tokens ?? null,
    metadata: request.metadata ?? {},
    parallel_tool_calls: request.parallel_tool_calls ?? true,
    reasoning: { effort: reasoning?.effort ?? null, summary: null },
    temperature: request.temperature ?? null,
    text: { format: text?.format ?? { type: 'text' }, ...(verbosity == null ? {} : { verbosity }) },
    tool_choice: request.tool_choice ?? 'auto',
    tools: [...(request.tools ?? [])],
    top_p: request.top_p ?? null,
    ...(request.user == null ? {} : { user: request.user }),
  }
}

function statusOf(ended: Ended | undefined): ResponseObject['status'] {
  if (!ended) return 'in_progress'
  if (ended.error) return 'failed'
  return cutReason(ended.reason) ? 'incomplete' : 'completed'
}

/** Usage under the names of the Responses API; a detail that the upstream does not send is 0. */
function usageOf(usage: Usage): ResponseObject['usage'] {
  const { prompt_tokens, completion_tokens, total_tokens } = usage
  return {
    input_tokens: prompt_tokens,
    input_tokens_details: {
      cached_tokens: detail(usage, 'prompt_tokens_details', 'cached_tokens'),
      cache_write_tokens: detail(usage, 'prompt_tokens_details', 'cache_write_tokens'),
    },
    output_tokens: completion_tokens,
    output_tokens_details: { reasoning_tokens: detail(usage, 'completion_tokens_details', 'reasoning_tokens') },
    total_tokens: total_tokens ?? prompt_tokens + completion_tokens,
  }
}

function detail(usage: Usage, group: string, name: string): number {
  const details = field(usage, group)
  const count = typeof details === 'object' && details !== null ? field(details, name) : undefined
  return typeof count === 'number' ? count : 0
}
