import { promptEstimate } from '../limits/estimate.ts'
import type { SentPrompt } from '../models/model.ts'
import type { Work } from '../work/work.ts'
import { countTokens } from './usage.ts'

/** Only prompts of more than this many tokens are checked. */
const minPromptTokens = 1024
/** The exact count is at most this many times the quick estimate. The estimate is too low for a text of short words. */
const maxEstimateError = 1.25

/**
 * Detects an upstream that truncated the prompt silently, as Ollama does (docs/upstreams.md). Such an upstream counts fewer than
 * half of the tokens that Conservatory counts. Only prompts of more than 1,024 tokens are checked.
 * @param reported the prompt tokens that the upstream reported; undefined if it reported none
 * @returns the two counts as `<theirs>/<ours>` if the prompt was truncated, else null. The result is undefined, without a
 * promise, if the upstream reported no tokens or a quick estimate shows that the prompt was not truncated
 */
export function truncationOf(
  reported: number | undefined,
  prompt: SentPrompt,
  work: Work,
): Promise<string | null> | undefined {
  // An upstream that reports 0 has not counted.
  if (!reported) return undefined
  const maxTokens = maxEstimateError * promptEstimate(prompt, prompt.size)
  return maxTokens > minPromptTokens && 2 * reported < maxTokens ? compared(reported, prompt, work) : undefined
}

async function compared(reported: number, prompt: SentPrompt, work: Work): Promise<string | null> {
  try {
    const { prompt: ours } = await countTokens(prompt, '', work)
    return ours > minPromptTokens && 2 * reported < ours ? `${reported}/${ours}` : null
  } catch {
    // The reply is complete and must not fail because of a warning.
    return null
  }
}
