import type { Persona } from '../../characters/prompt/settings.ts'
import { type CompletionRequest, type Message, maxReplyTokensOf } from '../../openai/completion-request.ts'
import { plainMessage, textsOf } from '../../openai/messages.ts'
import { functionsOf } from '../../openai/tools.ts'
import type { ComposedParts, ModelRequest } from '../model.ts'
import type { PromptParts } from './reply-context.ts'
import type { CallableTools, SchemaText } from './tool-call.ts'

/** What a reply is made from, as plain data. */
export interface ReplyInput {
  /** The whole prompt; as JSON if a worker has composed it. */
  readonly messages: readonly Message[] | Uint8Array
  /** The greeting, and the caller's own messages; undefined if these are all messages. */
  readonly conversation: readonly Message[] | undefined
  readonly persona: Persona
  readonly parts: PromptParts
  readonly tools: CallableTools | undefined
  /** The form of a reply that calls no tool: a text, an object with the text, or a value that fits a schema. */
  readonly form: 'text' | 'object' | SchemaText
  readonly choiceCount: number
  readonly seed: number | null
  readonly stop: readonly string[]
  /** The most tokens of each choice. */
  readonly maxTokens: number
  /** Whether the choices are split into words, for a stream. */
  readonly isSplit: boolean
}

/**
 * What a reply to a request is made from.
 * @throws ApiError 400 if `tool_choice` names a custom tool
 */
export function inputOf({ body, messagesJson, persona, composition }: ModelRequest, isSplit: boolean): ReplyInput {
  const format = body.response_format
  return {
    messages: messagesJson ?? body.messages.map(plainMessage),
    conversation: composition && conversationIn(composition).map(plainMessage),
    persona,
    parts: partsOf(composition),
    tools: body.tools || body.tool_choice ? toolsOf(body) : undefined,
    form:
      format?.type === 'json_schema'
        ? { json: JSON.stringify(format.json_schema?.schema ?? {}), param: schemaParam }
        : format?.type === 'json_object'
          ? 'object'
          : 'text',
    choiceCount: body.n ?? 1,
    seed: body.seed ?? null,
    stop: [body.stop ?? []].flat(),
    maxTokens: maxReplyTokensOf(body) ?? Infinity,
    isSplit,
  }
}

/** The conversation in a prompt: the greeting, and the caller's own messages. */
function conversationIn({ sections }: ComposedParts): readonly Message[] {
  return sections.flatMap(({ section, messages }) =>
    section === 'greeting' || section === 'conversation' ? (messages ?? []) : [],
  )
}

const schemaParam = 'response_format.json_schema.schema'

function partsOf(composition: ComposedParts | undefined): PromptParts {
  const fired = (composition?.lore ?? []).filter((report) => report.fired)
  return {
    lore: fired.map(({ source, keys }) => ({ source, keys: keys ?? [] })),
    droppedExamples: composition?.dropped.examples ?? 0,
  }
}

function toolsOf(body: CompletionRequest): CallableTools {
  const { functions, choice } = functionsOf(body)
  const places = new Map(body.tools?.map((tool, index) => [tool, index]))
  return {
    choice,
    functions: functions.map((tool) => {
      const { name, description, parameters } = tool.function
      const param = `tools[${places.get(tool)}].function.parameters`
      return { name, description, schema: parameters ? { json: JSON.stringify(parameters), param } : undefined }
    }),
  }
}

/** The field of the request that causes the most work. */
export function paramOf({ tools, form }: ReplyInput): string {
  if (tools) return 'tools'
  return typeof form === 'object' ? form.param : 'messages'
}

/** The characters of the texts and schemas that a reply is made from. */
export function lengthOf({ messages, tools, form }: ReplyInput): number {
  if (messages instanceof Uint8Array) return messages.length
  const texts = messages.flatMap(textsOf)
  for (const { description, schema } of tools?.functions ?? []) texts.push(description ?? '', schema?.json ?? '')
  if (typeof form === 'object') texts.push(form.json)
  return texts.reduce((sum, { length }) => sum + length, 0)
}
