import { type ApiError, invalidField } from '../errors.ts'
import { CompletionRequest } from '../openai/completion-request.ts'
import { type Format, ResponseRequest, type Tool, type ToolChoice } from '../openai/response-request.ts'
import type { Tool as ChatTool, ToolChoice as ChatToolChoice } from '../openai/tool-fields.ts'
import { conversationOf, type FindItem, unsupported, unsupportedType } from './to-messages.ts'

/** A request of the Responses API as a chat request. */
export interface Translation {
  readonly body: CompletionRequest
  /** Fields of the request that no model gets, for `x-ignored-params`. */
  readonly ignored: readonly string[]
  /** Returns the name that a field of the chat request has in this request. */
  readonly nameOf: (field: string) => string
  /** Turns an error about a field of the chat request into an error about the field that was sent. */
  readonly translateError: (error: ApiError) => ApiError
}

/** Fields that refer to stored objects. Conservatory stores no such objects, so it refuses these fields. */
const unsupportedFields: Readonly<Record<string, string>> = {
  previous_response_id: 'is not supported: responses are not kept. Send the whole conversation in "input"',
  conversation: 'is not supported: conversations are not kept. Send the whole conversation in "input"',
  prompt: 'is not supported: send "instructions" and "input"',
}

/**
 * Fields of a chat request that the Responses API does not have. They are removed, because they would reach the model unchecked.
 */
const chatOnlyFields = Object.keys(CompletionRequest.properties).filter(
  (name) => !Object.hasOwn(ResponseRequest.properties, name),
)

/**
 * Fields that no model gets. Each has a test for values without an effect. `x-ignored-params` names a field with any other value.
 */
const ignoredFields: Readonly<Record<string, (value: unknown) => boolean>> = {
  ...Object.fromEntries(chatOnlyFields.map((name) => [name, () => false])),
  store: (value) => value === false,
  background: () => true,
  truncation: (value) => value === 'disabled',
  include: (value) => Array.isArray(value) && value.every((each) => each === 'reasoning.encrypted_content'),
  max_tool_calls: () => false,
  stream_options: () => false,
  service_tier: (value) => value === 'auto' || value === 'default',
  top_logprobs: (value) => value === 0,
}

/**
 * Translates a request into a chat request with the same meaning.
 * @param find finds the output items of earlier responses
 * @throws ApiError 400 that names the field
 */
export function completionRequestOf(request: ResponseRequest, find: FindItem): Translation {
  refuseUnsupported(request)
  const {
    input: _input,
    instructions: _instructions,
    max_output_tokens,
    tools,
    tool_choice,
    text,
    reasoning,
    parallel_tool_calls,
    ...rest
  } = request
  const ignored = Object.entries(ignoredFields).flatMap(([name, isIdle]) => {
    const value: unknown = Reflect.get(request, name)
    return value == null || isIdle(value) ? [] : [name]
  })
  for (const name of Object.keys({ ...ignoredFields, ...unsupportedFields })) Reflect.deleteProperty(rest, name)
  const { messages, origins, leavesReasoning } = conversationOf(request, find)
  if (messages.length === 0) throw invalidField('input', 'holds no message: add one of the role user')
  if (leavesReasoning) ignored.push('input.reasoning')
  if (reasoning && Object.entries(reasoning).some(([name, value]) => name !== 'effort' && value != null)) {
    ignored.push('reasoning.summary')
  }
  const body = {
    ...rest,
    messages,
    ...(max_output_tokens == null ? {} : { max_completion_tokens: max_output_tokens }),
    ...(reasoning?.effort == null ? {} : { reasoning_effort: reasoning.effort }),
    ...(text?.verbosity == null ? {} : { verbosity: text.verbosity }),
    ...(text?.format == null || text.format.type === 'text' ? {} : { response_format: formatOf(text.format) }),
    ...toolsOf(tools ?? [], tool_choice ?? undefined, parallel_tool_calls),
  }
  const nameOf = (field: string) => ownParam(field, origins)
  return { body, ignored, nameOf, translateError: (error) => translateError(error, nameOf) }
}

/** @throws ApiError 400 for a field that Conservatory cannot honour */
function refuseUnsupported(request: ResponseRequest): void {
  for (const [name, problem] of Object.entries(unsupportedFields)) {
    if (Reflect.get(request, name) != null) throw unsupported(name, problem)
  }
  if (request.background === true) throw unsupported('background', 'is not supported: send false, or leave it out')
}

function formatOf({ type, name, description, schema, strict }: Format) {
  if (type !== 'json_schema') return { type }
  if (name === undefined) throw invalidField('text.format.name', 'is missing: a schema needs a name')
  return {
    type,
    json_schema: {
      name,
      ...(description == null ? {} : { description }),
      ...(schema === undefined ? {} : { schema }),
      ...(strict == null ? {} : { strict }),
    },
  }
}

/** The tools of the chat request, and its tool choice. */
function toolsOf(tools: readonly Tool[], choice: ToolChoice | undefined, parallel: boolean | null | undefined) {
  const all = tools.map((tool, index) => toolOf(tool, `tools[${index}]`))
  if (all.length === 0) {
    // OpenAI's chat completions refuse `tool_choice` and `parallel_tool_calls` without tools, but clients of the Responses API
    // always send them. So these fields are dropped. A `tool_choice` that requires a tool is passed on.
    return choice === undefined || choice === 'auto' || choice === 'none' ? {} : { tool_choice: choiceOf(choice) }
  }
  return {
    tools: typeof choice === 'object' && choice.type === 'allowed_tools' ? allowed(all, choice) : all,
    ...(choice === undefined ? {} : { tool_choice: choiceOf(choice) }),
    ...(parallel == null ? {} : { parallel_tool_calls: parallel }),
  }
}

function allowed(tools: readonly ChatTool[], { tools: named = [] }: Exclude<ToolChoice, string>): ChatTool[] {
  const names = new Set(named.map(({ name }) => name))
  const left = tools.filter((tool) => names.has(tool.type === 'custom' ? tool.custom.name : tool.function.name))
  if (left.length > 0) return left
  throw invalidField('tool_choice.tools', 'names none of the tools: name one of "tools"')
}

function toolOf({ type, name, description, parameters, strict, format }: Tool, at: string): ChatTool {
  if (type !== 'function' && type !== 'custom') {
    throw unsupportedType(`${at}.type`, type, ': send tools of the type function or custom')
  }
  if (name === undefined) throw invalidField(`${at}.name`, 'is missing: a tool has a name')
  const described = description == null ? { name } : { name, description }
  if (type === 'custom') return { type, custom: { ...described, ...(format && { format: toolFormatOf(format) }) } }
  return {
    type,
    function: {
      ...described,
      ...(parameters == null ? {} : { parameters }),
      ...(strict == null ? {} : { strict }),
    },
  }
}

/** The format of a custom tool in a chat request. There, a grammar is a separate object. */
function toolFormatOf({ type, definition, syntax }: NonNullable<Tool['format']>) {
  return type === 'text' ? { type } : { type, grammar: { definition, syntax } }
}

function choiceOf(choice: ToolChoice): ChatToolChoice {
  if (typeof choice === 'string') return choice
  const { type, name, mode } = choice
  if (type === 'allowed_tools') return mode ?? 'auto'
  if (type !== 'function' && type !== 'custom') {
    throw unsupportedType('tool_choice.type', type)
  }
  if (name === undefined) throw invalidField('tool_choice.name', 'is missing: it names the tool')
  return type === 'custom' ? { type, custom: { name } } : { type, function: { name } }
}

/** Fields of a chat request, and their names in the Responses API. */
const ownNames: ReadonlyMap<string, string> = new Map([
  ['messages', 'input'],
  ['max_completion_tokens', 'max_output_tokens'],
  ['max_tokens', 'max_output_tokens'],
  ['reasoning_effort', 'reasoning.effort'],
  ['verbosity', 'text.verbosity'],
])

/** The path of a field in a chat message, and its path in an item. */
const ownPlaces: readonly (readonly [RegExp, string])[] = [
  [/^\.tool_call_id/, '.call_id'],
  [/^\.tool_calls\[\d+\]\.(?:function|custom)/, ''],
  [/\.image_url\.url$/, '.image_url'],
  [/\.file\.(\w+)$/, '.$1'],
]

function translateError(error: ApiError, nameOf: Translation['nameOf']): ApiError {
  const { param } = error
  if (param === null) return error
  const own = nameOf(param)
  if (own === param) return error
  return error.withParam(own, error.message.replaceAll(`"${param}"`, `"${own}"`))
}

function ownParam(param: string, origins: readonly string[]): string {
  const format = /^response_format(?:\.json_schema)?/.exec(param)
  if (format) return `text.format${param.slice(format[0].length)}`
  const tool = /^(tools\[\d+\])\.(?:function|custom)/.exec(param)
  if (tool) return `${tool[1]}${param.slice(tool[0].length)}`
  const message = /^messages\[(\d+)\]/.exec(param)
  if (!message) return ownNames.get(param) ?? param
  const origin = origins[Number(message[1])] ?? 'input'
  const rest = param.slice(message[0].length)
  // `instructions` and a plain text as `input` have no inner fields.
  if (!origin.includes('[')) return origin
  return origin + ownPlaces.reduce((place, [chat, own]) => place.replace(chat, own), rest)
}
