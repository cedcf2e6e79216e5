import type {
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4ReasoningPart,
  LanguageModelV4TextPart,
  LanguageModelV4ToolCallPart,
} from '@ai-sdk/provider'
import type { Message, ToolCall } from '../../openai/completion-request.ts'
import { field } from '../field.ts'
import { keptMetadata, signedReasoning } from './extra-content.ts'
import { fault, type SupportedUrls } from './media.ts'
import { olderId, plainText, refusalOf, textParts, toolResult, userContent } from './parts.ts'

/** A neutral user line: where a conversation begins that would otherwise begin with the assistant. */
export const startOfChat = '[Start a new chat]'

/**
 * Translates OpenAI's messages to the AI SDK's prompt (`LanguageModelV4Prompt`), with what every provider can take:
 * - system messages before the conversation are one system text; a later one stays where it is, as a user message,
 *   because the providers' APIs have one system text, at the top, and hoisting it would change what it means;
 * - example dialogues (system messages named `example_user` and `example_assistant`) are turns of their own,
 *   closed by a line that tells where the real conversation begins;
 * - the conversation begins with the user (Anthropic requires it), and neighbours of one role are joined, which is
 *   also what parallel tool results need: all of them in one message.
 */
export function toPrompt(messages: readonly Message[], supported: SupportedUrls): LanguageModelV4Prompt {
  const prompt: LanguageModelV4Prompt = []
  const toolNames = new Map<string, string>()
  const lastUser = messages.findLastIndex(({ role }) => role === 'user')
  /** System messages from between a tool call and its results, which nothing may part. */
  const held: LanguageModelV4Message[] = []
  let isExample = false
  // Where the next message stands that is not the system's: looked for once for all in between.
  let next = 0
  for (const [index, message] of messages.entries()) {
    const { role } = message
    if (next <= index) {
      next = index + 1
      for (let later = messages[next]; later && isSystem(later); later = messages[next]) next++
    }
    if (role === 'tool' || role === 'function') {
      append(prompt, { role: 'tool', content: [toolResult(message, toolNames)] })
      continue
    }
    if (isSystem(message) && isResult(messages[next])) {
      held.push(systemMessage(message, prompt, false))
      continue
    }
    for (const note of held.splice(0)) append(prompt, note)
    const speaker = exampleSpeaker(message)
    if (isExample && !isSystem(message)) append(prompt, user(startOfChat))
    isExample = speaker !== undefined || (isExample && isSystem(message))
    if (speaker !== undefined) append(prompt, { role: speaker, content: textParts(plainText(message)) })
    else if (isSystem(message)) {
      append(prompt, systemMessage(message, prompt, exampleSpeaker(messages[index + 1]) !== undefined))
    } else if (role === 'assistant') {
      for (const { id, function: called } of callsOf(message)) toolNames.set(id, called.name)
      append(prompt, { role, content: assistantContent(message, index > lastUser) })
    } else append(prompt, { role: 'user', content: userContent(message, supported) })
  }
  for (const note of held) append(prompt, note)
  if (isExample || prompt.every(({ role }) => role === 'system')) append(prompt, user(startOfChat))
  const first = prompt.findIndex(({ role }) => role !== 'system')
  if (prompt[first]?.role === 'assistant') prompt.splice(first, 0, user(startOfChat))
  return prompt
}

function isSystem({ role }: Message): boolean {
  return role === 'system' || role === 'developer'
}

function isResult(message: Message | undefined): boolean {
  return message?.role === 'tool' || message?.role === 'function'
}

/** Adds a message: to the one before when both have one role; an empty one is left out, as most APIs refuse it. */
function append(prompt: LanguageModelV4Prompt, message: LanguageModelV4Message): void {
  if (message.content.length === 0) return
  const last = prompt.at(-1)
  if (last?.role === 'system' && message.role === 'system') last.content += `\n\n${message.content}`
  else if (last?.role === 'user' && message.role === 'user') addAll(last.content, message.content)
  else if (last?.role === 'assistant' && message.role === 'assistant') addAll(last.content, message.content)
  else if (last?.role === 'tool' && message.role === 'tool') addAll(last.content, message.content)
  else prompt.push(message)
}

/** One by one: so many arguments as a message can have parts are too many for a call. */
function addAll<T>(parts: T[], more: readonly T[]): void {
  for (const part of more) parts.push(part)
}

function user(text: string): LanguageModelV4Message {
  return { role: 'user', content: textParts(text) }
}

function exampleSpeaker(message: Message | undefined): 'user' | 'assistant' | undefined {
  if (message?.role !== 'system') return undefined
  if (message.name === 'example_user') return 'user'
  return message.name === 'example_assistant' ? 'assistant' : undefined
}

/** A system message where it stands. One that only marks something, `[in brackets]`, needs no other mark. */
function systemMessage(
  message: Message,
  before: LanguageModelV4Prompt,
  isBeforeExample: boolean,
): LanguageModelV4Message {
  const text = plainText(message)
  const isLeading = before.every(({ role }) => role === 'system') && !isBeforeExample
  if (isLeading) return { role: 'system', content: text }
  return user(text === '' || /^\[[^\]\n]*\]$/.test(text) ? text : `[System note]\n${text}`)
}

function assistantContent(
  message: Message,
  isInToolLoop: boolean,
): (LanguageModelV4ReasoningPart | LanguageModelV4TextPart | LanguageModelV4ToolCallPart)[] {
  const calls = callsOf(message)
  return [
    ...(isInToolLoop && calls.length > 0 ? signedReasoning(message) : []),
    ...textParts(plainText(message)),
    ...textParts(refusalOf(message)),
    ...calls.map(toolCall),
  ]
}

/** The calls of an assistant message, the one of OpenAI's older `function_call` field among them. */
function callsOf(message: Message): readonly ToolCall[] {
  const calls = message.tool_calls ?? []
  const older = field(message, 'function_call')
  const name = field(older, 'name')
  const given = field(older, 'arguments')
  if (typeof name !== 'string' || typeof given !== 'string') return calls
  return [...calls, { id: olderId(name), type: 'function', function: { name, arguments: given } }]
}

function toolCall(call: ToolCall): LanguageModelV4ToolCallPart {
  const { id, function: called } = call
  const extra = keptMetadata(field(call, 'extra_content'))
  return {
    type: 'tool-call',
    toolCallId: id,
    toolName: called.name,
    input: readArguments(called.arguments),
    ...(extra === undefined ? {} : { providerOptions: extra }),
  }
}

function readArguments(text: string): unknown {
  if (text.trim() === '') return {}
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  } catch {
    // Told below.
  }
  throw fault('messages[].tool_calls[].function.arguments', 'is not a JSON object')
}
