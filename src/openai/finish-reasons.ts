/** The finish reasons of a choice. */
export const finishReasons = ['stop', 'length', 'tool_calls', 'content_filter', 'function_call'] as const
export type FinishReason = (typeof finishReasons)[number]

/**
 * The finish reason that the ledger records. Upstreams may send any value. A value that OpenAI's API does not have counts as
 * `stop`.
 */
export function recordedReason(sent: unknown): FinishReason {
  return finishReasons.find((reason) => reason === sent) ?? 'stop'
}
