import { isDeepStrictEqual } from 'node:util'
import { field } from '../fields.ts'
import type { ContentPart, Message } from '../openai/completion-request.ts'
import type { Roles } from './configuration/settings.ts'

/** How a model wants its messages: other names of roles, and alternating roles. */
export interface MessageShape {
  readonly roles?: Roles | undefined
  readonly mergeMessages?: boolean | undefined
}

/** Composed messages in the shape that a model wants. Roles are renamed before adjacent messages are merged. */
export function shapeMessages(messages: readonly Message[], { roles, mergeMessages: merges }: MessageShape) {
  const renamed = roles ? messages.map((message) => withRole(message, roles[message.role])) : messages
  return merges ? mergeMessages(renamed) : renamed
}

function withRole(message: Message, role = message.role): Message {
  return role === message.role ? message : { ...message, role }
}

/** If the assistant would begin the conversation, this user message goes first. Chat programs use similar texts. */
const opening: Message = { role: 'user', content: '[Start a new chat]' }

/**
 * Merges messages for chat templates that require alternating roles. Adjacent messages of one role are joined, with a blank line
 * between them. If the assistant begins the conversation, a neutral user message goes first. Messages with tool calls or tool
 * results, and messages of users and assistants with a name, stay as they are. A joined message has the other fields of all its
 * messages, such as `reasoning_content`. Messages with different values of such a field are not joined.
 */
export function mergeMessages(messages: readonly Message[]): readonly Message[] {
  const merged: Message[] = []
  let hasBegun = false
  for (let index = 0; index < messages.length; ) {
    const first = messages[index]
    if (!first) break
    if (first.role === 'assistant' && !hasBegun) merged.push(opening)
    hasBegun ||= !isSystem(first.role)
    let end = index + 1
    const others = new Map(otherFields(first))
    for (let next = messages[end]; next && canJoin(first, next, others); next = messages[end]) {
      for (const [name, value] of otherFields(next)) others.set(name, value)
      end++
    }
    const group = messages.slice(index, end)
    merged.push(group.length === 1 ? first : { ...Object.fromEntries(others), ...joinMessages(first, group) })
    index = end
  }
  return merged
}

function isSystem(role: Message['role']): boolean {
  return role === 'system' || role === 'developer'
}

/** The fields of a message that are not joined. */
function otherFields({ role: _role, content: _content, name: _name, refusal: _refusal, ...others }: Message) {
  return Object.entries<unknown>(others)
}

/** @param others the other fields of the message that grows */
function canJoin(first: Message, second: Message, others: ReadonlyMap<string, unknown>): boolean {
  const isPlain = (message: Message) => {
    const { role, tool_calls: calls, name } = message
    const hasCalls = (calls?.length ?? 0) > 0 || field(message, 'function_call') != null
    return role !== 'tool' && role !== 'function' && !hasCalls && (name == null || isSystem(role))
  }
  return (
    isPlain(first) &&
    isPlain(second) &&
    first.role === second.role &&
    otherFields(second).every(([name, value]) => !others.has(name) || isDeepStrictEqual(others.get(name), value))
  )
}

/**
 * Joins messages. The texts before the first message with content parts become one text; all later contents follow as parts. A
 * refusal becomes content too, so that it keeps its position among the joined contents.
 * @param first the first of the messages
 */
function joinMessages({ role }: Message, messages: readonly Message[]): Message {
  const texts: string[] = []
  let parts: ContentPart[] | undefined
  for (const message of messages) {
    const content = contentOf(message)
    if (typeof content === 'string' && !parts) texts.push(content)
    else {
      parts ??= [...partsOf(joinTexts(texts))]
      for (const part of partsOf(content)) parts.push(part)
    }
  }
  return { role, content: parts ?? joinTexts(texts) }
}

/** The content of a message, followed by its refusal. */
function contentOf({ content, refusal }: Message): string | readonly ContentPart[] {
  if (typeof content === 'string' || !content) return joinTexts([content ?? '', refusal ?? ''])
  return refusal ? [...content, { type: 'refusal', refusal }] : content
}

function joinTexts(texts: readonly string[]): string {
  return texts.filter((text) => text !== '').join('\n\n')
}

function partsOf(content: string | readonly ContentPart[]): readonly ContentPart[] {
  if (typeof content !== 'string') return content
  return content === '' ? [] : [{ type: 'text', text: content }]
}
