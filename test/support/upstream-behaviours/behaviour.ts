import { json, pieces, type Script, sse } from '../upstream.ts'

/** How an upstream behaves, by whom that was seen, and what becomes of it here. */
export interface Behaviour {
  readonly upstream: string
  /** Of the upstream, its API or its model; else the month in which it was seen. */
  readonly version: string
  /** The documentation page, or the issue. */
  readonly source: string
  /** What it sends, in words. */
  readonly came: string
  readonly script: Script
  /** What is asked besides a short message; a whole answer without anything. */
  readonly ask?: Readonly<Record<string, unknown>>
  /** What the caller got. */
  readonly got: string
  /** How the ledger has it: the state, and the tokens as the upstream counted them. */
  readonly ledger: string
  /** How often it was asked, where it may be asked twice. */
  readonly asked: number
  /** Whether the next model of a list was asked. */
  readonly next: boolean
  /** Whether the breaker counted a failure. */
  readonly counted: boolean
}

/** Asks for a stream. */
export const streamed = { stream: true }
/** Asks for a stream with its usage. */
export const withUsage = { stream: true, stream_options: { include_usage: true } }
/** Asks for a stream about some 8,000 tokens. */
const long = [{ role: 'user', content: 'word '.repeat(8000) }]
/** Asks about some 8,000 tokens. */
export const longWhole = { messages: long }
/** The same, streamed. */
export const longStreamed = { messages: long, stream: true }

/** A usage of so many tokens. */
export const usageOf = (prompt_tokens: number, completion_tokens: number) => ({
  prompt_tokens,
  completion_tokens,
  total_tokens: prompt_tokens + completion_tokens,
})

const head = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1700000000, model: 'm' }

/** A chunk of one choice, with what else it has. */
export function chunk(delta: unknown, finish_reason: unknown = null, more: Readonly<Record<string, unknown>> = {}) {
  return { ...head, choices: [{ index: 0, delta, finish_reason }], ...more }
}

/** A chunk without a choice. */
export const bare = (more: Readonly<Record<string, unknown>>) => ({ ...head, choices: [], ...more })

export const begun = chunk({ role: 'assistant', content: '' })
export const word = chunk({ content: 'Hello' })
export const over = chunk({}, 'stop')

/** Streams events, and says that it is done unless told otherwise. */
export const events = (...values: readonly unknown[]): Script =>
  pieces([sse(...values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value))))])

/** An error with its own status. */
export const refusing = (status: number, body: unknown): Script => json(body, status)

/** How llama.cpp says that a prompt is too long. */
export const tooLongForLlama = {
  code: 400,
  message: 'request (19185 tokens) exceeds the available context size (16384 tokens), try increasing it',
  type: 'exceed_context_size_error',
  n_prompt_tokens: 19185,
  n_ctx: 16384,
}

/** Where OpenRouter documents its errors. */
export const openRouterErrors = 'https://openrouter.ai/docs/api/reference/errors-and-debugging'
