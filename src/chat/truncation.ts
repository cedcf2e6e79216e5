import { promptEstimate } from '../limits/estimate.ts'
import type { Message } from '../openai/completion-request.ts'
import type { Work } from '../work.ts'

/** Tokens of the shortest prompt that is checked. */
const minPromptTokens = 1024
/** The exact count may be this many times the quick estimate: texts of short words have more tokens than it assumes. */
const maxEstimateError = 1.25

/**
 * Detects an upstream that cut the prompt silently, as Ollama does (docs/upstreams.md): it counted fewer than half of the
 * tokens that Conservatory counts, and these are over 1,024.
 * @param reported the prompt tokens that the upstream reported; undefined where it reported none
 * @returns `<theirs>/<ours>` tokens, or null; undefined at once where a quick estimate shows that nothing is missing, as nearly always
 */
export function truncationOf(
  reported: number | undefined,
  messages: readonly Message[],
  work: Work,
): Promise<string | null> | undefined {
  // An upstream that reports 0 has not counted.
  if (!reported) return undefined
  const maxTokens = maxEstimateError * promptEstimate({ messages })
  return maxTokens > minPromptTokens && 2 * reported < maxTokens ? compared(reported, messages, work) : undefined
}

async function compared(reported: number, messages: readonly Message[], work: Work): Promise<string | null> {
  try {
    const tokenizer = await (await import('../models/tokenizer.ts')).loadTokenizer()
    const ours = await work.run('messages', tokenizer.countMessages(messages))
    return ours > minPromptTokens && 2 * reported < ours ? `${reported}/${ours}` : null
  } catch {
    // The reply is complete and must not fail because of a warning.
    return null
  }
}
