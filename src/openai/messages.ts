import { invalidField } from '../errors.ts'
import type { ContentPart, Message } from './completion-request.ts'

/**
 * Checks what a message's schema cannot say: which fields its role needs, and that tool results answer a call.
 * @throws ApiError 400 that names the message
 */
export function checkMessages(messages: readonly Message[]): void {
  const openCalls = new Set<string>()
  for (const [index, message] of messages.entries()) {
    const at = `messages[${index}]`
    for (const call of message.tool_calls ?? []) openCalls.add(call.id)
    if (message.role === 'tool') checkToolResult(message, openCalls, at)
    const mayLackContent = message.role === 'assistant' || message.role === 'function'
    if (message.content == null && !mayLackContent) throw invalidField(`${at}.content`, 'is missing: send a text')
    if (Array.isArray(message.content)) checkParts(message.content, `${at}.content`)
  }
}

/** @param openCalls the ids of the calls that messages before it have made */
function checkToolResult({ tool_call_id: id }: Message, openCalls: ReadonlySet<string>, at: string): void {
  if (!id) throw invalidField(`${at}.tool_call_id`, 'is missing: a tool message names the call that it answers')
  if (!openCalls.has(id))
    throw invalidField(`${at}.tool_call_id`, 'answers no tool call of an assistant message before it')
}

function checkParts(parts: readonly ContentPart[], at: string): void {
  for (const [index, part] of parts.entries()) checkPart(part, `${at}[${index}]`)
}

function checkPart(part: ContentPart, at: string): void {
  if (part[part.type] === undefined)
    throw invalidField(`${at}.${part.type}`, `is missing: a part of this type needs it`)
}
