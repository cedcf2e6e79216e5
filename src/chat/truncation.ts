import { promptEstimate } from '../limits/estimate.ts'
import type { Message } from '../openai/completion-request.ts'
import type { Work } from '../work.ts'

/** Tokens of the shortest prompt that is looked at. */
const least = 1024
/** How far the quick estimate may be under what is counted: texts of short words have more tokens than it says. */
const leeway = 1.25

/**
 * What of a prompt an upstream has read: `<theirs>/<ours>` where it counted under half of the tokens that we count, and those
 * are over 1,024. Some cut prompts that are too long for them, and say nothing of it (Ollama: docs/upstreams.md).
 * @param told tokens of the prompt by the upstream's words; undefined where it told none
 * @returns undefined at once where a quick estimate shows that nothing is missing, as nearly always
 */
export function truncationOf(
  told: number | undefined,
  messages: readonly Message[],
  work: Work,
): Promise<string | null> | undefined {
  // A prompt of no tokens is not a short one: nobody counted it.
  if (!told) return undefined
  const most = leeway * promptEstimate({ messages })
  return most > least && 2 * told < most ? compared(told, messages, work) : undefined
}

async function compared(told: number, messages: readonly Message[], work: Work): Promise<string | null> {
  try {
    const tokenizer = await (await import('../models/tokenizer.ts')).loadTokenizer()
    const ours = await work.run('messages', tokenizer.countMessages(messages))
    return ours > least && 2 * told < ours ? `${told}/${ours}` : null
  } catch {
    // The reply is there, and must not fail by a warning.
    return null
  }
}
