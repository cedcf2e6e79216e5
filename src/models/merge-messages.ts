import type { ContentPart, Message } from '../chat/completion-request.ts'

/** Stands before an assistant's message that nobody of the user's precedes; chat programs begin with the like. */
const opening: Message = { role: 'user', content: '[Start a new chat]' }

/**
 * Gives the messages as chat templates with strict alternation want them: neighbours of one role joined by a blank line,
 * and a neutral user line before a conversation that the assistant begins. Tool calls and results stay as they are.
 */
export function mergeMessages(messages: readonly Message[]): readonly Message[] {
  const merged: Message[] = []
  for (const message of messages) {
    const last = merged.at(-1)
    const isFirstOfConversation = message.role === 'assistant' && merged.every(({ role }) => isSystem(role))
    if (isFirstOfConversation) merged.push(opening, message)
    else if (last && canJoin(last, message)) merged[merged.length - 1] = joined(last, message)
    else merged.push(message)
  }
  return merged
}

function isSystem(role: Message['role']): boolean {
  return role === 'system' || role === 'developer'
}

function canJoin(first: Message, second: Message): boolean {
  const isPlain = ({ role, tool_calls, name }: Message) =>
    role !== 'tool' && role !== 'function' && !tool_calls?.length && (name == null || isSystem(role))
  return isPlain(first) && isPlain(second) && first.role === second.role
}

function joined(first: Message, second: Message): Message {
  const { name: _name, ...rest } = first
  if (typeof first.content === 'string' && typeof second.content === 'string') {
    return { ...rest, content: [first.content, second.content].filter((text) => text !== '').join('\n\n') }
  }
  return { ...rest, content: [...partsOf(first), ...partsOf(second)] }
}

function partsOf({ content }: Message): readonly ContentPart[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? [])
}
