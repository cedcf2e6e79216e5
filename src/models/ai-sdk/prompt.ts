import type {
  LanguageModelV4FilePart,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4TextPart,
  LanguageModelV4ToolCallPart,
  SharedV4ProviderMetadata,
} from '@ai-sdk/provider'
import { invalidField } from '../../errors.ts'
import { field, isFields } from '../../fields.ts'
import { JsonFault, maxJsonProperties, maxJsonValues, readJson } from '../../json.ts'
import type { ContentPart, Message } from '../../openai/completion-request.ts'
import type { ToolCall } from '../../openai/tool-fields.ts'
import { calledBy } from '../../openai/tools.ts'
import { cacheOptions } from './cache-control.ts'
import { CallNames } from './call-names.ts'
import { opaqueMetadata, type SignedReasoning, signedReasoning } from './extra-content.ts'
import type { SupportedUrls } from './media.ts'
import {
  isBlank,
  noOutput,
  olderId,
  ownPictures,
  partsOf,
  plainParts,
  plainText,
  refusalOf,
  textParts,
  toolOutput,
  userContent,
} from './prompt-parts.ts'
import type { ProviderRules } from './provider-rules.ts'

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
export function toPrompt(
  messages: readonly Message[],
  supported: SupportedUrls,
  options: PromptOptions = {},
): LanguageModelV4Prompt {
  const ordered = withResults(messages)
  const writer = new PromptWriter(supported, options)
  // If the model thinks, the last turn needs its thinking even if the user has spoken since.
  const turn = options.thinks ? ordered.findLastIndex(({ role }) => role === 'assistant') : ordered.length
  const lastUser = ordered.findLastIndex(({ role }, index) => role === 'user' && index < turn)
  for (const [index, message] of ordered.entries()) {
    if (isResult(message)) writer.addResult(message)
    else if (isSystem(message)) writer.addSystem(message, ordered[index + 1])
    else writer.addTurn(message, index > lastUser)
  }
  return writer.end()
}

/** How a provider takes a prompt. */
export interface PromptOptions {
  readonly names?: CallNames
  /** Whether the answer will have thinking. */
  readonly thinks?: boolean | undefined
  readonly rules?: Pick<ProviderRules, 'signer' | 'takesOwnPictures'>
}

/** A message, with the results of its calls. */
interface TurnWithResults {
  readonly message: Message
  readonly results: Message[]
  /** The calls without a result, by id. */
  readonly open: Map<string, number>
}

/**
 * The messages, with the results of calls directly behind their calls, because providers refuse a message between them. A call
 * without a result gets one. A result without a call, and a second result of a call, become messages of the user.
 */
function withResults(messages: readonly Message[]): readonly Message[] {
  const turns: TurnWithResults[] = []
  const callers = new Map<string, TurnWithResults>()
  for (const message of messages) {
    const id = isResult(message) ? resultId(message) : ''
    const caller = callers.get(id)
    const open = caller?.open.get(id) ?? 0
    if (isResult(message) && caller && open > 0) {
      caller.results.push(message)
      caller.open.set(id, open - 1)
      continue
    }
    const turn = {
      message: isResult(message) ? asUser(message) : message,
      results: [],
      open: new Map<string, number>(),
    }
    for (const { id } of callsOf(message)) {
      callers.set(id, turn)
      turn.open.set(id, (turn.open.get(id) ?? 0) + 1)
    }
    turns.push(turn)
  }
  return turns.flatMap(({ message, results, open }) => {
    const missing = [...open].flatMap(([id, count]) =>
      Array.from({ length: count }, (): Message => ({ role: 'tool', tool_call_id: id, content: noOutput })),
    )
    return [message, ...results, ...missing]
  })
}

function asUser(message: Message): Message {
  const content: readonly ContentPart[] =
    typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : (message.content ?? [])
  return { role: 'user', content: [{ type: 'text', text: '[Result of a tool]' }, ...content] }
}

function resultId(message: Message): string {
  return message.tool_call_id ?? olderId(message.name ?? '')
}

/**
 * The most JSON values in the arguments of all calls of a request. Packages write the arguments as JSON in one synchronous call:
 * four million values blocked the thread for 80 ms.
 */
const maxArgumentValues = 4 * maxJsonValues

/** Writes a prompt, message by message. */
class PromptWriter {
  readonly #supported: SupportedUrls
  readonly #options: PromptOptions
  readonly #names: CallNames
  readonly #prompt: LanguageModelV4Prompt = []
  /** The names of called tools, by the ids of the calls. */
  readonly #toolNames = new Map<string, string>()
  /** How many JSON values the arguments of further calls may still have. */
  readonly #values = { left: maxArgumentValues }
  #isExample = false

  constructor(supported: SupportedUrls, options: PromptOptions) {
    this.#supported = supported
    this.#options = options
    this.#names = options.names ?? new CallNames()
  }

  addResult(message: Message): void {
    const toolCallId = this.#names.result(resultId(message))
    const toolName = this.#toolNames.get(toolCallId) ?? toolCallId
    const output = toolOutput(message)
    const cache = cacheOptions(message, ...partsOf(message))
    append(this.#prompt, { role: 'tool', content: [{ type: 'tool-result', toolCallId, toolName, ...cache, output }] })
  }

  /** Adds a system message, or a turn of an example dialogue. */
  addSystem(message: Message, following: Message | undefined): void {
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
    if (this.#isExample) append(this.#prompt, user(startOfChat))
    this.#isExample = false
    if (message.role === 'assistant') {
      append(this.#prompt, { role: 'assistant', content: this.#assistantContent(message, isInToolLoop) })
    } else append(this.#prompt, { role: 'user', content: userContent(message, this.#supported) })
  }

  #assistantContent(message: Message, isInToolLoop: boolean): AssistantPart[] {
    const calls = callsOf(message).map((call) => this.#toolCall(call))
    const pictures = this.#options.rules?.takesOwnPictures ? ownPictures(message) : []
    const said = pictures.length > 0 && Array.isArray(message.content) ? withoutPictures(message) : message
    const texts = [...plainParts(said), ...textParts(refusalOf(message))]
    const signed = isInToolLoop && calls.length > 0 ? signedReasoning(message, this.#options.rules?.signer) : []
    return [...inOrder(texts, calls, signed, pictures)]
  }

  #toolCall(call: ToolCall): LanguageModelV4ToolCallPart {
    const extra = opaqueMetadata(field(call, 'extra_content'))
    const toolCallId = this.#names.call(call.id)
    const toolName = this.#names.tool(calledBy(call).name)
    this.#toolNames.set(toolCallId, toolName)
    return {
      type: 'tool-call',
      toolCallId,
      toolName,
      // The input of a provider's call must be an object.
      input:
        call.type === 'custom' ? { input: call.custom.input } : readArguments(call.function.arguments, this.#values),
      ...(extra === undefined ? {} : { providerOptions: extra }),
    }
  }

  end(): LanguageModelV4Prompt {
    const prompt = this.#prompt
    if (this.#isExample || prompt.every(({ role }) => role === 'system')) append(prompt, user(startOfChat))
    const first = prompt.findIndex(({ role }) => role !== 'system')
    if (prompt[first]?.role === 'assistant') prompt.splice(first, 0, user(startOfChat))
    return prompt
  }
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

/** A part of an assistant's message. */
type AssistantPart = Extract<LanguageModelV4Message, { role: 'assistant' }>['content'][number]

/** The parts of an assistant's message, with each signed reasoning in its place among texts and calls. */
function* inOrder(
  texts: readonly LanguageModelV4TextPart[],
  calls: readonly LanguageModelV4ToolCallPart[],
  signed: readonly SignedReasoning[],
  pictures: readonly LanguageModelV4FilePart[],
): Iterable<AssistantPart> {
  const left = new TextCursor(texts)
  let called = 0
  for (const { text, provider, after_characters: characters = 0, after_calls: count = 0 } of signed) {
    yield* left.upTo(characters)
    yield* calls.slice(called, count)
    called = Math.max(called, Math.min(count, calls.length))
    const type = text === '' && isOfText(provider) ? 'text' : 'reasoning'
    yield { type, text, providerOptions: provider }
  }
  yield* left.upTo(Number.POSITIVE_INFINITY)
  yield* pictures
  yield* calls.slice(called)
}

/** Texts that are taken in pieces. */
class TextCursor {
  readonly #parts: readonly LanguageModelV4TextPart[]
  #part = 0
  /** The characters of the current part that were taken. */
  #taken = 0
  /** The characters of all parts that were taken. */
  #characters = 0

  constructor(parts: readonly LanguageModelV4TextPart[]) {
    this.#parts = parts
  }

  /** The texts up to a number of characters from the beginning, without blank pieces. */
  *upTo(characters: number): Iterable<LanguageModelV4TextPart> {
    for (let part = this.#parts[this.#part]; part && this.#characters < characters; part = this.#parts[this.#part]) {
      const end = Math.min(part.text.length, this.#taken + characters - this.#characters)
      const isWhole = end === part.text.length
      const text = part.text.slice(this.#taken, end)
      if (!isBlank(text)) yield isWhole ? { ...part, text } : { type: 'text', text }
      this.#characters += end - this.#taken
      this.#taken = isWhole ? 0 : end
      if (isWhole) this.#part++
    }
  }
}

/** Whether a signature without a text is Gemini's signature of the text before it. */
function isOfText(provider: SharedV4ProviderMetadata): boolean {
  return Object.values(provider).some((values) => 'thoughtSignature' in values)
}

function withoutPictures(message: Message): Message {
  return { ...message, content: partsOf(message).filter(({ type }) => type !== 'image_url') }
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

/** Reads the arguments of a call. Arguments that are no JSON object, as a model may write them, become a property of one. */
function readArguments(text: string, shared: { left: number }): unknown {
  if (text.trim() === '') return {}
  try {
    const value = readJson(text, { depth: 100, duplicates: 'last', shared })
    return isFields(value) ? value : { input: value }
  } catch (error) {
    if (error instanceof JsonFault && error.kind === 'syntax') return { input: text }
  }
  throw invalidField(
    'messages[].tool_calls[].function.arguments',
    `is nested too deeply, or has too many values: at most ${maxJsonValues}, ${maxJsonProperties} in one object, and ${maxArgumentValues} in all calls`,
  )
}
