import type { LanguageModelV4Usage } from '@ai-sdk/provider'
import type { Usage } from '../../openai/completion.ts'

/** Tokens used, with the details of OpenAI's `CompletionUsage`. */
export interface DetailedUsage extends Usage {
  readonly prompt_tokens_details: { readonly cached_tokens: number }
  readonly completion_tokens_details: { readonly reasoning_tokens: number }
}

/**
 * Translates token counts (`LanguageModelV4Usage`); undefined if the provider does not report them. No prompt has 0 tokens, and no
 * answer with words.
 */
export function toUsage(
  { inputTokens, outputTokens }: LanguageModelV4Usage,
  hasWords: boolean,
): DetailedUsage | undefined {
  const prompt = inputTokens.total
  const completion = outputTokens.total
  if (!prompt || completion === undefined || (completion === 0 && hasWords)) return undefined
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: inputTokens.cacheRead ?? 0 },
    completion_tokens_details: { reasoning_tokens: outputTokens.reasoning ?? 0 },
  }
}

/** The sum of the tokens of several answers to one request; undefined if the tokens of one answer are not known. */
export function sumOf(usages: readonly (DetailedUsage | undefined)[]): DetailedUsage | undefined {
  const known = usages.filter((usage) => usage !== undefined)
  if (known.length < usages.length) return undefined
  return known.reduce((one, other) => ({
    prompt_tokens: one.prompt_tokens + other.prompt_tokens,
    completion_tokens: one.completion_tokens + other.completion_tokens,
    total_tokens: one.total_tokens + other.total_tokens,
    prompt_tokens_details: {
      cached_tokens: one.prompt_tokens_details.cached_tokens + other.prompt_tokens_details.cached_tokens,
    },
    completion_tokens_details: {
      reasoning_tokens:
        one.completion_tokens_details.reasoning_tokens + other.completion_tokens_details.reasoning_tokens,
    },
  }))
}
