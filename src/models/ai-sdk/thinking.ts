import type { CallOptions } from './language-model.ts'

/** The least budget that Claude's API takes (platform.claude.com/docs/en/build-with-claude/extended-thinking). Tokens. */
const minBudgetTokens = 1024

/** How much of a reply is for thinking, by effort: the AI SDK's own shares (`map-reasoning-to-provider.ts`). */
const shares = new Map([
  ['minimal', 0.02],
  ['low', 0.1],
  ['medium', 0.3],
  ['high', 0.6],
  ['xhigh', 0.9],
  ['max', 0.95],
])
/** Beyond this there is no room for an answer. */
const maxShare = 0.95

/**
 * Keeps the thinking of Claude's older models, which think by a budget, within the tokens that a reply may have: the package
 * takes a share of all that the model could say, and adds it to them. Where they are too few to think, `reasoning` is left out.
 * @param modelId the id that the model goes by upstream
 */
export async function limitThinking(options: CallOptions, modelId: string): Promise<CallOptions> {
  const { maxOutputTokens, reasoning, providerOptions } = options
  const own = providerOptions?.['anthropic']
  const share = shares.get(reasoning ?? '')
  // What the operator says of thinking counts for more.
  if (maxOutputTokens === undefined || share === undefined || own?.['thinking'] != null || own?.['effort'] != null) {
    return options
  }
  const { getModelCapabilities } = await import('@ai-sdk/anthropic/internal')
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
