import { json, pieces, type Script, sse } from '../upstream.ts'

/** One behaviour of an upstream: its source, the upstream's answer, and the service's reply. It is a row of docs/upstreams.md. */
export interface Behaviour {
  readonly upstream: string
  /** The version of the upstream, its API or its model; otherwise the month in which the behaviour was seen. */
  readonly version: string
  /** The URL of the documentation page or of the issue that describes the behaviour. */
  readonly source: string
  /** The upstream's answer, in words. */
  readonly came: string
  readonly script: Script
  /** Fields that are added to the request, or replaced. By default the request has a short message, and is for a whole answer. */
  readonly ask?: Readonly<Record<string, unknown>>
  /** The reply that the caller gets, in words. */
  readonly got: string
  /** The request in the ledger: its state, and its tokens as the upstream counted them. */
  readonly ledger: string
  /** How often the upstream gets the request. */
  readonly asked: number
  /** Whether the next model of a fallback list is asked. */
  readonly next: boolean
  /** Whether the circuit breaker counts a failure. */
  readonly counted: boolean
}

/** Requests a stream. */
export const streamed = { stream: true }
/** Requests a stream with its usage. */
export const withUsage = { stream: true, stream_options: { include_usage: true } }
/** A message of some 8,000 tokens. */
const long = [{ role: 'user', content: 'word '.repeat(8000) }]
/** Requests a whole answer to some 8,000 tokens. */
export const longWhole = { messages: long }
/** Requests a streamed answer to some 8,000 tokens. */
export const longStreamed = { messages: long, stream: true }

/** A usage with these numbers of tokens. */
export const usageOf = (prompt_tokens: number, completion_tokens: number) => ({
  prompt_tokens,
  completion_tokens,
  total_tokens: prompt_tokens + completion_tokens,
})

const head = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1700000000, model: 'm' }

/** A chunk with one choice. @param more further properties of the chunk */
export function chunk(delta: unknown, finish_reason: unknown = null, more: Readonly<Record<string, unknown>> = {}) {
  return { ...head, choices: [{ index: 0, delta, finish_reason }], ...more }
}

/** A chunk without choices. @param more further properties of the chunk */
export const bare = (more: Readonly<Record<string, unknown>>) => ({ ...head, choices: [], ...more })

export const begun = chunk({ role: 'assistant', content: '' })
export const word = chunk({ content: 'Hello' })
export const over = chunk({}, 'stop')

/** Streams these events, and then ends the response. A text is sent as it is, other values as JSON. */
export const events = (...values: readonly unknown[]): Script =>
  pieces([sse(...values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value))))])

/** Answers with an error status and a JSON body. */
export const refusing = (status: number, body: unknown): Script => json(body, status)

/** The error of llama.cpp for a prompt that is too long. */
export const tooLongForLlama = {
  code: 400,
  message: 'request (19185 tokens) exceeds the available context size (16384 tokens), try increasing it',
  type: 'exceed_context_size_error',
  n_prompt_tokens: 19185,
  n_ctx: 16384,
}

/** The page on which OpenRouter documents its errors. */
export const openRouterErrors = 'https://openrouter.ai/docs/api/reference/errors-and-debugging'
