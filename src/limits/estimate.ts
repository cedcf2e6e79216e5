import { Beginnings } from '../openai/beginnings.ts'
import { type CompletionRequest, type Message, textOf } from '../openai/completion-request.ts'
import { leastTokensPerMessage } from '../openai/messages.ts'

/** Tokens of a reply whose request sets no limit. */
const longReply = 1024
/** Bytes to a token: prose has four and more, so that the estimate is rather too high. */
const bytesToToken = 3
/** Tokens of what is no text: an image, a sound. */
const otherPart = 1000

const counted = new Beginnings(sizeOf)

/** About how many tokens messages have, rather too many: a third of their bytes, four for each, 1,000 for an image. */
export function promptEstimate({ messages, tools }: Pick<CompletionRequest, 'messages' | 'tools'>): number {
  const beginning = counted.of(messages)
  const rest = sizeOf(beginning ? messages.slice(beginning.messages.length) : messages)
  const bytes = (beginning?.made.bytes ?? 0) + rest.bytes + (tools == null ? 0 : JSON.stringify(tools).length)
  return Math.ceil(bytes / bytesToToken) + (beginning?.made.more ?? 0) + rest.more
}

/** Bytes of messages' texts, and the tokens that they have besides. */
function sizeOf(messages: readonly Message[]): { readonly bytes: number; readonly more: number } {
  let bytes = 0
  let more = 0
  for (const message of messages) {
    bytes += Buffer.byteLength(textOf(message))
    for (const { function: call } of message.tool_calls ?? []) bytes += call.name.length + call.arguments.length
    more += leastTokensPerMessage + otherPart * otherParts(message)
  }
  return { bytes, more }
}

/** How many tokens a reply may have: what the request allows, else 1,024, for each of its choices. */
export function replyEstimate(request: Pick<CompletionRequest, 'max_completion_tokens' | 'max_tokens' | 'n'>): number {
  return (request.max_completion_tokens ?? request.max_tokens ?? longReply) * (request.n ?? 1)
}

function otherParts({ content }: Message): number {
  return Array.isArray(content) ? content.filter(({ type }) => type !== 'text' && type !== 'refusal').length : 0
}
