import { type CompletionRequest, type Message, textOf } from '../openai/completion-request.ts'
import { leastTokensPerMessage } from '../openai/messages.ts'

/** Tokens of a reply whose request sets no limit. */
const longReply = 1024
/** Bytes to a token: prose has four and more, so that the estimate is rather too high. */
export const bytesToToken = 3
/** Tokens of what is no text: an image, a sound. */
const otherPart = 1000

/** What a model reads of a request besides its messages. */
const readBeside = ['tools', 'functions', 'response_format', 'prediction'] as const

/** About how many tokens a prompt has, rather too many: a third of its bytes, four for each message, 1,000 for an image. */
export function promptEstimate(request: { readonly messages: readonly Message[] }): number {
  const { bytes, more } = sizeOf(request.messages)
  const beside = readBeside.reduce((sum, name) => sum + bytesOf(Reflect.get(request, name)), 0)
  return Math.ceil((bytes + beside) / bytesToToken) + more
}

/** Bytes that a model may read of messages, and the tokens that they have besides. */
function sizeOf(messages: readonly Message[]): { readonly bytes: number; readonly more: number } {
  let bytes = 0
  let more = 0
  for (const message of messages) {
    bytes += Buffer.byteLength(textOf(message)) + bytesBesideText(message)
    more += leastTokensPerMessage + otherPart * otherParts(message)
  }
  return { bytes, more }
}

/** Bytes of a message besides its text: of a name, a refusal, calls of tools, and of what upstreams alone know. */
function bytesBesideText(message: Message): number {
  let bytes = 0
  for (const name in message) {
    if (name !== 'role' && name !== 'content') bytes += bytesOf(Reflect.get(message, name))
  }
  if (!Array.isArray(message.content)) return bytes
  return message.content.reduce((sum, { refusal }) => sum + bytesOf(refusal), bytes)
}

/** Bytes of a text, or of anything else as JSON; none of nothing. */
function bytesOf(value: unknown): number {
  if (value == null) return 0
  return Buffer.byteLength(typeof value === 'string' ? value : JSON.stringify(value))
}

/** How many tokens a reply may have: the most that the request allows, else 1,024, for each of its choices. */
export function replyEstimate(request: Pick<CompletionRequest, 'max_completion_tokens' | 'max_tokens' | 'n'>): number {
  // An upstream heeds one of the two names, and which one nobody knows here.
  // No end, which is -1, is as if none were given.
  const allowed = Math.max(request.max_completion_tokens ?? 0, request.max_tokens ?? 0, 0)
  return (allowed || longReply) * (request.n ?? 1)
}

function otherParts({ content }: Message): number {
  return Array.isArray(content) ? content.filter(({ type }) => type !== 'text' && type !== 'refusal').length : 0
}
