import type { CompletionRequest, Message } from '../openai/completion-request.ts'
import { bytesOf, type PromptSize, promptSize } from '../openai/message-sizes.ts'

/** Tokens of a reply whose request sets no maximum. */
const longReply = 1024
/** Bytes of a token, for estimates. A token of prose has four or more bytes, so the estimate is rather too high. */
export const bytesToToken = 3

/** Fields of a request that a model reads besides the messages. */
const readBeside = ['tools', 'functions', 'response_format', 'prediction'] as const

/**
 * A rather too high estimate of a prompt's tokens: one for three bytes, four for a message, 1,000 for an image or a sound.
 * @param size the size of the messages, if it is known: then the messages are not read
 */
export function promptEstimate(
  request: { readonly messages: readonly Message[] },
  size: PromptSize = promptSize(request.messages),
): number {
  let { bytes } = size
  for (const name of readBeside) bytes += bytesOf(Reflect.get(request, name))
  return Math.ceil(bytes / bytesToToken) + size.more
}

/** The tokens that a reply may have: for each choice the request's maximum, or 1,024 by default. */
export function replyEstimate(request: Pick<CompletionRequest, 'max_completion_tokens' | 'max_tokens' | 'n'>): number {
  // An upstream obeys one of the two parameters, but it is unknown which one. -1 means no maximum, like a missing parameter.
  const allowed = Math.max(request.max_completion_tokens ?? 0, request.max_tokens ?? 0, 0)
  return (allowed || longReply) * (request.n ?? 1)
}
