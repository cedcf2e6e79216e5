import type {
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4ReasoningPart,
  LanguageModelV4TextPart,
  LanguageModelV4ToolCallPart,
} from '@ai-sdk/provider'
import { invalidField } from '../../errors.ts'
import { field, isFields } from '../../fields.ts'
import { maxJsonProperties, maxJsonValues, readJson } from '../../json.ts'
import type { Message } from '../../openai/completion-request.ts'
import type { ToolCall } from '../../openai/tool-fields.ts'
import { calledBy } from '../../openai/tools.ts'
import { opaqueMetadata, signedReasoning } from './extra-content.ts'
import type { SupportedUrls } from './media.ts'
import { olderId, plainParts, plainText, refusalOf, textParts, toolResult, userContent } from './prompt-parts.ts'

/**
 * A neutral user message. It is for a conversation that would begin with the assistant, for the end of example dialogues, and for
 * a prompt of only system messages.
 */
export const startOfChat = '[Start a new chat]'

/**
 * Translates OpenAI's messages to the AI SDK's prompt (`LanguageModelV4Prompt`), in a form that every provider takes:
 * - System messages at the top are joined to one system text. After a part with `cache_control`, a new system text begins.
 * - A system message further down, or directly before an example dialogue, becomes a user message: the providers' APIs have a
 *   system text only at the top, and the message would have another meaning there. The user message is in the place of the system
 *   message, or after the tool results that follow.
 * - Example dialogues (system messages named `example_user` and `example_assistant`) become turns. After these turns, a user
 *   message says that the real conversation begins.
 * - The conversation begins with the user, because Anthropic requires this. Adjacent messages of one role are joined, because
 *   parallel tool results must be in one message.
 * @throws ApiError 400 for content, or arguments of a call, that cannot be translated
 */
export function toPrompt(messages: readonly Message[], supported: SupportedUrls): LanguageModelV4Prompt {
  const writer = new PromptWriter(supported)
  const lastUser = messages.findLastIndex(({ role }) => role === 'user')
  // The index of the next message that is not a system message. It is searched only once for all messages before that message.
  let next = 0
  for (const [index, message] of messages.entries()) {
    if (next <= index) next = nextOfConversation(messages, index)
    if (isResult(message)) writer.addResult(message)
    else if (isSystem(message) && isResult(messages[next])) writer.hold(message)
    else if (isSystem(message)) writer.addSystem(message, messages[index + 1])
    else writer.addTurn(message, index > lastUser)
  }
  return writer.end()
}

/**
 * The most JSON values in the arguments of all calls of a request. Packages write the arguments as JSON in one synchronous call:
 * four million values blocked the thread for 80 ms.
 */
const maxArgumentValues = 4 * maxJsonValues

/** Writes a prompt, message by message. */
class PromptWriter {
  readonly #supported: SupportedUrls
  readonly #prompt: LanguageModelV4Prompt = []
  /** The names of called tools, by the ids of the calls. */
  readonly #toolNames = new Map<string, string>()
  /** System messages that came between a tool call and its results. The results must follow the call directly. */
  readonly #held: LanguageModelV4Message[] = []
  /** How many JSON values the arguments of further calls may still have. */
  readonly #values = { left: maxArgumentValues }
  #isExample = false

  constructor(supported: SupportedUrls) {
    this.#supported = supported
  }

  addResult(message: Message): void {
    append(this.#prompt, { role: 'tool', content: [toolResult(message, this.#toolNames)] })
  }

  /** Holds back a system message until the results of tools are written. */
  hold(message: Message): void {
    this.#held.push(...systemMessages(message, this.#prompt, false))
  }

  /** Adds a system message, or a turn of an example dialogue. */
  addSystem(message: Message, following: Message | undefined): void {
    this.#release()
    const speaker = exampleSpeaker(message)
    if (speaker !== undefined) {
      this.#isExample = true
      append(this.#prompt, { role: speaker, content: plainParts(message) })
    } else {
      const notes = systemMessages(message, this.#prompt, exampleSpeaker(following) !== undefined)
      for (const note of notes) append(this.#prompt, note)
    }
  }

  /** Adds a turn of the conversation. @param isInToolLoop whether no user message follows */
  addTurn(message: Message, isInToolLoop: boolean): void {
    this.#release()
    if (this.#isExample) append(this.#prompt, user(startOfChat))
    this.#isExample = false
    if (message.role === 'assistant') {
      const calls = callsOf(message)
      const content = assistantContent(message, isInToolLoop && calls.length > 0)
      for (const call of calls) {
        this.#toolNames.set(call.id, calledBy(call).name)
        content.push(toolCall(call, this.#values))
      }
      append(this.#prompt, { role: 'assistant', content })
    } else append(this.#prompt, { role: 'user', content: userContent(message, this.#supported) })
  }

  end(): LanguageModelV4Prompt {
    this.#release()
    const prompt = this.#prompt
    if (this.#isExample || prompt.every(({ role }) => role === 'system')) append(prompt, user(startOfChat))
    const first = prompt.findIndex(({ role }) => role !== 'system')
    if (prompt[first]?.role === 'assistant') prompt.splice(first, 0, user(startOfChat))
    return prompt
  }

  #release(): void {
    if (this.#held.length === 0) return
    for (const note of this.#held.splice(0)) append(this.#prompt, note)
  }
}

/** The index of the next message that is not a system message. */
function nextOfConversation(messages: readonly Message[], index: number): number {
  let next = index + 1
  for (let later = messages[next]; later && isSystem(later); later = messages[next]) next++
  return next
}

function isSystem({ role }: Message): boolean {
  return role === 'system' || role === 'developer'
}

function isResult(message: Message | undefined): boolean {
  return message?.role === 'tool' || message?.role === 'function'
}

/** Adds a message, or joins it to the last message if both have one role. Skips an empty message, which most APIs refuse. */
function append(prompt: LanguageModelV4Prompt, message: LanguageModelV4Message): void {
  if (message.content.length === 0) return
  const last = prompt.at(-1)
  // A cached prefix must not change, so nothing is joined to the last message of a cached prefix.
  if (last?.role === 'system' && message.role === 'system' && !last.providerOptions) {
    prompt.splice(-1, 1, { ...message, content: `${last.content}\n\n${message.content}` })
  } else if (last?.role === 'user' && message.role === 'user') addAll(last.content, message.content)
  else if (last?.role === 'assistant' && message.role === 'assistant') addAll(last.content, message.content)
  else if (last?.role === 'tool' && message.role === 'tool') addAll(last.content, message.content)
  else prompt.push(message)
}

/** Pushes each part alone, because a message may have more parts than a JavaScript call may have arguments. */
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

/**
 * Translates a system message. At the top of the prompt, each part becomes a system message, so that a cached prefix ends at the
 * end of a message. Elsewhere, and before an example dialogue, the result is one user message. The text of the user message
 * begins with `[System note]`, unless the whole text is in `[brackets]`.
 */
function systemMessages(
  message: Message,
  before: LanguageModelV4Prompt,
  isBeforeExample: boolean,
): readonly LanguageModelV4Message[] {
  const text = plainText(message)
  const parts = plainParts(message)
  // After the first other message, no message has the role `system`.
  const isLeading = (before.at(-1)?.role ?? 'system') === 'system' && !isBeforeExample
  if (isLeading) {
    return parts.map(({ text: content, providerOptions }) => ({
      role: 'system',
      content,
      ...(providerOptions ? { providerOptions } : {}),
    }))
  }
  const [first, ...rest] = parts
  if (!first) return []
  const isMarked = /^\[[^\]\n]*\]$/.test(text)
  return [{ role: 'user', content: isMarked ? parts : [{ ...first, text: `[System note]\n${first.text}` }, ...rest] }]
}

/** The content of an assistant message without its calls. @param isReasoned whether to include the message's signed reasoning */
function assistantContent(
  message: Message,
  isReasoned: boolean,
): (LanguageModelV4ReasoningPart | LanguageModelV4TextPart | LanguageModelV4ToolCallPart)[] {
  return [...(isReasoned ? signedReasoning(message) : []), ...plainParts(message), ...textParts(refusalOf(message))]
}

/** The calls of an assistant message, including OpenAI's older `function_call`. */
function callsOf(message: Message): readonly ToolCall[] {
  const calls = message.tool_calls ?? []
  const older = field(message, 'function_call')
  const name = field(older, 'name')
  const given = field(older, 'arguments')
  if (typeof name !== 'string' || typeof given !== 'string') return calls
  return [...calls, { id: olderId(name), type: 'function', function: { name, arguments: given } }]
}

function toolCall(call: ToolCall, values: { left: number }): LanguageModelV4ToolCallPart {
  const extra = opaqueMetadata(field(call, 'extra_content'))
  return {
    type: 'tool-call',
    toolCallId: call.id,
    toolName: calledBy(call).name,
    // The input of a provider's call must be an object.
    input: call.type === 'custom' ? { input: call.custom.input } : readArguments(call.function.arguments, values),
    ...(extra === undefined ? {} : { providerOptions: extra }),
  }
}

function readArguments(text: string, shared: { left: number }): unknown {
  if (text.trim() === '') return {}
  try {
    const value = readJson(text, { depth: 100, duplicates: 'last', shared })
    if (isFields(value)) return value
  } catch {
    // The error below says what is wrong.
  }
  throw invalidField(
    'messages[].tool_calls[].function.arguments',
    `is not a JSON object, is nested too deeply, or has too many values: at most ${maxJsonValues}, ${maxJsonProperties} in one object, and ${maxArgumentValues} in all calls`,
  )
}
