import type { CallOptions } from './language-model.ts'

/** The package, loaded at the first use: a service without Anthropic's models does not need it. */
let loading: Promise<typeof import('@ai-sdk/anthropic/internal')> | undefined

/** The smallest budget that Claude's API takes (platform.claude.com/docs/en/build-with-claude/extended-thinking). */
const minBudgetTokens = 1024

/** The share of a reply that thinking may use, by effort: the AI SDK's own values (`map-reasoning-to-provider.ts`). */
const shares = new Map([
  ['minimal', 0.02],
  ['low', 0.1],
  ['medium', 0.3],
  ['high', 0.6],
  ['xhigh', 0.9],
  ['max', 0.95],
])
/** Thinking may use at most this share of a reply. A larger share would leave no room for an answer. */
const maxShare = 0.95

/**
 * Keeps the thinking of Claude's older models, which have a thinking budget, within the tokens of the reply. Without this
 * function, the package would compute the budget from the model's maximum, and add the budget to the tokens of the reply. If the
 * reply has too few tokens for thinking, `reasoning` is left out.
 * @param modelId the model's id at the upstream
 */
export async function limitThinking(options: CallOptions, modelId: string): Promise<CallOptions> {
  const { maxOutputTokens, reasoning, providerOptions } = options
  const own = providerOptions?.['anthropic']
  const share = shares.get(reasoning ?? '')
  // If the operator has set `thinking` or `effort`, these settings count.
  if (maxOutputTokens === undefined || share === undefined || own?.['thinking'] != null || own?.['effort'] != null) {
    return options
  }
  loading ??= import('@ai-sdk/anthropic/internal')
  const { getModelCapabilities } = await loading
  const model = getModelCapabilities(modelId)
  if (model.supportsAdaptiveThinking) return options
  const maxTokens = model.isKnownModel ? Math.min(maxOutputTokens, model.maxOutputTokens) : maxOutputTokens
  if (minBudgetTokens > maxTokens * maxShare) {
    const { reasoning: _reasoning, ...rest } = options
    return rest
  }
  const budgetTokens = Math.max(minBudgetTokens, Math.round(maxTokens * share))
  return {
    ...options,
    maxOutputTokens: maxOutputTokens - budgetTokens,
    providerOptions: { ...providerOptions, anthropic: { ...own, thinking: { type: 'enabled', budgetTokens } } },
  }
}
