import { field } from '../fields.ts'
import type { ContentPart, Message } from '../openai/completion-request.ts'
import type { Steps } from '../work.ts'

/** Units of work of one message. */
const unitsOfMessage = 30

/** If the assistant would begin the conversation, this user message goes first. Chat programs use similar texts. */
const opening: Message = { role: 'user', content: '[Start a new chat]' }

/**
 * Merges messages for chat templates that require alternating roles. Adjacent messages of one role are joined, with a blank line
 * between them. If the assistant begins the conversation, a neutral user message goes first. Messages with tool calls or tool
 * results, and messages of users and assistants with a name, stay as they are.
 */
export function* mergeMessages(messages: readonly Message[]): Steps<readonly Message[]> {
  const merged: Message[] = []
  let hasBegun = false
  for (let index = 0; index < messages.length; ) {
    const [first, ...others] = neighboursFrom(messages, index)
    if (!first) break
    if (first.role === 'assistant' && !hasBegun) merged.push(opening)
    hasBegun ||= !isSystem(first.role)
    merged.push(others.length === 0 ? first : joinMessages([first, ...others]))
    index += 1 + others.length
    yield (1 + others.length) * unitsOfMessage
  }
  return merged
}

/** The message at an index, and the messages after it that can be joined to it. */
function neighboursFrom(messages: readonly Message[], start: number): readonly Message[] {
  let end = start + 1
  for (let [one, next] = [messages[end - 1], messages[end]]; one && next && canJoin(one, next); ) {
    end++
    ;[one, next] = [messages[end - 1], messages[end]]
  }
  return messages.slice(start, end)
}

function isSystem(role: Message['role']): boolean {
  return role === 'system' || role === 'developer'
}

function canJoin(first: Message, second: Message): boolean {
  const isPlain = (message: Message) => {
    const { role, tool_calls: calls, name } = message
    const hasCalls = (calls?.length ?? 0) > 0 || field(message, 'function_call') != null
    return role !== 'tool' && role !== 'function' && !hasCalls && (name == null || isSystem(role))
  }
  return isPlain(first) && isPlain(second) && first.role === second.role
}

/**
 * Joins messages. The texts before the first message with content parts become one text; all later contents follow as parts. A
 * refusal becomes content too, so that it keeps its position among the joined contents.
 */
function joinMessages([first, ...others]: readonly [Message, ...Message[]]): Message {
  const { name: _name, refusal: _refusal, ...rest } = first
  const contents = [first, ...others].map(contentOf)
  const partsIndex = contents.findIndex((content) => typeof content !== 'string')
  const texts = (partsIndex === -1 ? contents : contents.slice(0, partsIndex)).filter(
    (content) => typeof content === 'string',
  )
  if (partsIndex === -1) return { ...rest, content: joinTexts(texts) }
  return { ...rest, content: [joinTexts(texts), ...contents.slice(partsIndex)].flatMap(partsOf) }
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
