import { type Message, textOf } from './completion-request.ts'

/*
 * What a conversation costs in OpenAI's chat format besides its texts; see "How to count tokens with tiktoken" in
 * OpenAI's cookbook.
 */

/** Tokens that open the reply. */
export const tokensPerReply = 3
const perMessage = 3
const perRole = 1
const perName = 1

/** The fewest tokens of a message, however short its texts are. */
export const leastTokensPerMessage = perMessage + perRole

/** Tokens of a message besides those of its texts. */
export function tokensBesideTexts({ name }: Message): number {
  return leastTokensPerMessage + (name ? perName : 0)
}

/** All texts of a message that a model reads. Its role is none: each is one token. */
export function textsOf(message: Message): readonly string[] {
  const texts = message.name ? [message.name, textOf(message)] : [textOf(message)]
  for (const { function: call } of message.tool_calls ?? []) texts.push(call.name, call.arguments)
  return texts
}

/** Tokens of a conversation. @param count gives the tokens of a text */
export function tokensOf(messages: readonly Message[], count: (text: string) => number): number {
  return messages.reduce((sum, message) => sum + tokensOfMessage(message, count), tokensPerReply)
}

/** Tokens of one message. @param count gives the tokens of a text */
export function tokensOfMessage(message: Message, count: (text: string) => number): number {
  return textsOf(message).reduce((sum, text) => sum + count(text), tokensBesideTexts(message))
}
