import { bufferOf } from '../bytes.ts'
import type { Message } from '../openai/completion-request.ts'
import { plainMessages, promptSize } from '../openai/message-sizes.ts'
import { defineJob } from '../work/job.ts'
import type { Work } from '../work/work.ts'
import type { SentPrompt } from './model.ts'
import { loadTokenizer } from './tokenizer.ts'

const tokenizer = await loadTokenizer()

/** The numbers of tokens of a prompt and of its answer. */
export interface TokenCounts {
  readonly prompt: number
  readonly answer: number
}

interface CountInput {
  /** The messages, or their JSON. */
  readonly prompt: readonly Message[] | Uint8Array
  readonly answer: string
}

/** Counts the tokens of a prompt and of its answer. */
export const countTokensJob = defineJob(
  import.meta.url,
  'countTokensJob',
  ({ prompt, answer }: CountInput): TokenCounts => {
    const messages: readonly Message[] =
      prompt instanceof Uint8Array ? JSON.parse(bufferOf(prompt).toString('utf8')) : prompt
    return { prompt: tokenizer.countMessages(messages), answer: tokenizer.count(answer) }
  },
)

/** More bytes are counted in the pool. */
const maxInlineBytes = 64 * 1024

/** Counts as `countTokensJob`, in the pool if the texts are long. @throws the errors of `work` */
export async function countTokens(sent: SentPrompt, answer: string, work: Work): Promise<TokenCounts> {
  const { messagesJson } = sent
  if (messagesJson) return work.runInPool('messages', countTokensJob, { prompt: messagesJson, answer })
  const isLarge = promptSize(sent.messages).bytes + answer.length > maxInlineBytes
  return work[isLarge ? 'runInPool' : 'run']('messages', countTokensJob, {
    prompt: plainMessages(sent.messages),
    answer,
  })
}
