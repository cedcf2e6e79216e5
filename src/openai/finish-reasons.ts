/** Why a choice can have ended. */
export const finishReasons = ['stop', 'length', 'tool_calls', 'content_filter', 'function_call'] as const
export type FinishReason = (typeof finishReasons)[number]

/** Why a choice ended, as far as upstreams keep to OpenAI's words: they may say anything, and it goes on record. */
export function recordedReason(said: unknown): FinishReason {
  return finishReasons.find((reason) => reason === said) ?? 'stop'
}
