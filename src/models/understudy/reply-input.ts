import type { LoreSource, Persona } from '../../characters/prompt/composition.ts'
import { type CompletionRequest, type Message, maxReplyTokensOf, textOf } from '../../openai/completion-request.ts'
import { plainMessages, promptSize } from '../../openai/message-sizes.ts'
import { type Functions, functionsOf } from '../../openai/tools.ts'
import { beginningOf, copyOf } from '../../text.ts'
import type { ModelRequest } from '../model.ts'

/** A function that may be called. */
export interface CallableTool {
  readonly name: string
  readonly description?: string | null | undefined
  /** The schema of the arguments. */
  readonly schema?: SchemaText | undefined
}

/** A schema of a request as plain data: its numbers stay as they were written. */
export interface SchemaText {
  readonly json: string
  /** The field with the schema. */
  readonly param: string
}

/** The tools of a request. */
export interface CallableTools {
  readonly functions: readonly CallableTool[]
  readonly choice: Functions['choice']
}

/** What a reply is made from, as plain data. */
export interface ReplyInput {
  /** The whole prompt; as JSON if a worker has composed it. */
  readonly messages: readonly Message[] | Uint8Array
  /** The greeting, and the caller's own messages; undefined if these are all messages. */
  readonly conversation: readonly Message[] | undefined
  readonly persona: Persona
  /** The lore that fired, of all books. */
  readonly lore: readonly LoreSource[]
  /** The number of example blocks that were dropped because they did not fit. */
  readonly droppedExamples: number
  readonly tools: CallableTools | undefined
  /** The form of a reply that calls no tool: a text, an object with the text, or a value that fits a schema. */
  readonly form: 'text' | 'object' | SchemaText
  readonly choiceCount: number
  readonly seed: number | null
  readonly stop: readonly string[]
  /** The most tokens of each choice. */
  readonly maxTokens: number
}

/**
 * What a reply to a request is made from.
 * @throws ApiError 400 if `tool_choice` names a custom tool
 */
export function inputOf({ body, messagesJson, persona, composition }: ModelRequest): ReplyInput {
  const format = body.response_format
  return {
    messages: messagesJson ?? plainMessages(body.messages),
    conversation:
      composition &&
      plainMessages(
        composition.sections
          .filter(({ section }) => section === 'greeting' || section === 'conversation')
          .flatMap((section) => section.messages ?? []),
      ),
    persona,
    lore: (composition?.lore ?? []).flatMap(({ fired, source }) => (fired ? source : [])),
    droppedExamples: composition?.dropped.examples ?? 0,
    tools: body.tools || body.tool_choice ? toolsOf(body) : undefined,
    form:
      format?.type === 'json_schema'
        ? { json: JSON.stringify(format.json_schema?.schema ?? {}), param: 'response_format.json_schema.schema' }
        : format?.type === 'json_object'
          ? 'object'
          : 'text',
    choiceCount: body.n ?? 1,
    seed: body.seed ?? null,
    stop: [body.stop ?? []].flat(),
    maxTokens: maxReplyTokensOf(body) ?? Infinity,
  }
}

function toolsOf(body: CompletionRequest): CallableTools {
  const { functions, choice } = functionsOf(body)
  return {
    choice,
    functions: functions.map((tool) => {
      const { name, description, parameters } = tool.function
      const param = `tools[${body.tools?.indexOf(tool)}].function.parameters`
      return { name, description, schema: parameters ? { json: JSON.stringify(parameters), param } : undefined }
    }),
  }
}

/** The field of the request that causes the most work. */
export function paramOf({ tools, form }: ReplyInput): string {
  return tools ? 'tools' : typeof form === 'object' ? form.param : 'messages'
}

/** The bytes of the messages and the characters of the schemas that a reply is made from. */
export function lengthOf({ messages, tools, form }: ReplyInput): number {
  if (messages instanceof Uint8Array) return messages.length
  const functions = tools?.functions ?? []
  const lengths = functions.flatMap(({ description, schema }) => [description?.length ?? 0, schema?.json.length ?? 0])
  const ofForm = typeof form === 'object' ? form.json.length : 0
  return lengths.reduce((sum, length) => sum + length, promptSize(messages).bytes + ofForm)
}

/** The parts of a conversation that a reply depends on. */
export interface Conversation {
  /** The end of the user's last message. */
  readonly question: string
  /** The beginning of the result of a tool, if it is the last message. Later system messages are ignored. */
  readonly toolResult: string | null
  /** The character's last messages. */
  readonly said: readonly string[]
}

/** Bounds of the messages that are read: their number, and their letters. A message can have megabytes. */
const maxSaidMessages = 200
const maxSaidLength = 8000
const maxQuestionLength = 2000
/** The most letters of a text that is quoted. */
const maxQuoteLength = 300

/** Reads the conversation from the messages, which may include composed messages of the prompt. */
export function readConversation(messages: readonly Message[]): Conversation {
  const last = messages.findLast(({ role }) => role !== 'system' && role !== 'developer')
  const users = messages.findLast(({ role }) => role === 'user')
  const said = messages.filter(({ role }) => role === 'assistant').slice(-maxSaidMessages)
  return {
    // A slice would keep the whole message in memory.
    question: users ? copyOf(textOf(users).slice(-maxQuestionLength)).replaceAll('*', ' ').trim() : '',
    toolResult: last && isToolResult(last) ? shortened(textOf(last).slice(0, maxQuestionLength)) : null,
    said: said.map((message) => textOf(message).slice(0, maxSaidLength)),
  }
}

/** Whether a message is the result of a tool. */
export function isToolResult({ role }: Message): boolean {
  return role === 'tool' || role === 'function'
}

/** The beginning of a text on one line, to quote it. */
export function shortened(text: string): string {
  return beginningOf(text.replace(/\s+/g, ' ').trim(), maxQuoteLength)
}
