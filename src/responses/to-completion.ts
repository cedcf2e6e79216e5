import { ApiError, invalidField } from '../errors.ts'
import type { CompletionRequest } from '../openai/completion-request.ts'
import type { Format, ResponseRequest, Tool, ToolChoice } from '../openai/response-request.ts'
import { conversationOf, type FindItem, unsupported } from './to-messages.ts'

/** A request as chat knows it. */
export interface Translation {
  readonly body: CompletionRequest
  /** Fields of the request that no model is asked with. */
  readonly ignored: readonly string[]
  /** An error that speaks of the chat request, as one that speaks of the fields that were sent. */
  readonly inOwnWords: (error: ApiError) => ApiError
}

/** Fields that ask for what is kept elsewhere, or done later: nothing here can stand for them. */
const unsupportedFields: Readonly<Record<string, string>> = {
  previous_response_id: 'is not supported: responses are not kept. Send the whole conversation in "input"',
  conversation: 'is not supported: conversations are not kept. Send the whole conversation in "input"',
  prompt: 'is not supported: send "instructions" and "input"',
}

/** Fields that are left out where they have these values, since nothing is different without them. */
const idle: Readonly<Record<string, (value: unknown) => boolean>> = {
  store: (value) => value === false,
  background: () => true,
  truncation: (value) => value === 'disabled',
  include: (value) => Array.isArray(value) && value.length === 0,
  max_tool_calls: () => false,
  stream_options: () => false,
  service_tier: (value) => value === 'auto' || value === 'default',
  top_logprobs: (value) => value === 0,
}

/**
 * A chat request that asks for the same.
 * @param find finds items that earlier responses have put out
 * @throws ApiError 400 that names the field
 */
export function completionRequestOf(request: ResponseRequest, find: FindItem): Translation {
  for (const [name, problem] of Object.entries(unsupportedFields)) {
    if (Reflect.get(request, name) != null) throw unsupported(name, problem)
  }
  if (request.background === true) throw unsupported('background', 'is not supported: send false, or leave it out')
  const {
    input: _input,
    instructions: _instructions,
    max_output_tokens,
    tools,
    tool_choice,
    text,
    reasoning,
    ...rest
  } = request
  const ignored = Object.entries(idle).flatMap(([name, isIdle]) => {
    const value: unknown = Reflect.get(request, name)
    return value == null || isIdle(value) ? [] : [name]
  })
  for (const name of Object.keys({ ...idle, ...unsupportedFields })) Reflect.deleteProperty(rest, name)
  const { messages, origins, leavesReasoning } = conversationOf(request, find)
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
    ...toolsOf(tools ?? [], tool_choice ?? undefined),
  }
  return { body, ignored, inOwnWords: (error) => inOwnWords(error, origins) }
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

/** The functions that a model may call, and whether it has to. */
function toolsOf(tools: readonly Tool[], choice: ToolChoice | undefined) {
  const functions = tools.map((tool, index) => functionOf(tool, `tools[${index}]`))
  const allowed = typeof choice === 'object' && choice.type === 'allowed_tools' ? choice : undefined
  const names = allowed && new Set(allowed.tools?.map(({ name }) => name))
  const left = names ? functions.filter((tool) => names.has(tool.function.name)) : functions
  return {
    ...(left.length === 0 ? {} : { tools: left }),
    ...(choice === undefined ? {} : { tool_choice: allowed ? (allowed.mode ?? 'auto') : choiceOf(choice) }),
  }
}

function functionOf({ type, name, description, parameters, strict }: Tool, at: string) {
  if (type !== 'function') throw unsupported(`${at}.type`, `is "${type}", which is not supported: send functions`)
  if (name === undefined) throw invalidField(`${at}.name`, 'is missing: a function has a name')
  return {
    type: 'function' as const,
    function: {
      name,
      ...(description == null ? {} : { description }),
      ...(parameters == null ? {} : { parameters }),
      ...(strict == null ? {} : { strict }),
    },
  }
}

function choiceOf(choice: ToolChoice) {
  if (typeof choice === 'string') return choice
  const { type, name } = choice
  if (type !== 'function') throw unsupported('tool_choice.type', `is "${type}", which is not supported`)
  if (name === undefined) throw invalidField('tool_choice.name', 'is missing: it names the function')
  return { type: 'function' as const, function: { name } }
}

/** Fields of a chat request by the names that they have here. */
const ownNames: Readonly<Record<string, string>> = {
  messages: 'input',
  max_completion_tokens: 'max_output_tokens',
  max_tokens: 'max_output_tokens',
  reasoning_effort: 'reasoning.effort',
  verbosity: 'text.verbosity',
}

/** Where in a chat message a field stands, and where in an item. */
const ownPlaces: readonly (readonly [RegExp, string])[] = [
  [/^\.tool_call_id/, '.call_id'],
  [/^\.tool_calls\[\d+\]\.function/, ''],
  [/\.image_url\.url$/, '.image_url'],
  [/\.file\.(\w+)$/, '.$1'],
]

function inOwnWords(error: ApiError, origins: readonly string[]): ApiError {
  const { param, status, code, headers, cause } = error
  if (param === null) return error
  const own = ownParam(param, origins)
  if (own === param) return error
  const message = error.message.replaceAll(`"${param}"`, `"${own}"`)
  return new ApiError(status, code, message, { param: own, headers, cause })
}

function ownParam(param: string, origins: readonly string[]): string {
  const format = /^response_format(?:\.json_schema)?/.exec(param)
  if (format) return `text.format${param.slice(format[0].length)}`
  const tool = /^(tools\[\d+\])\.function/.exec(param)
  if (tool) return `${tool[1]}${param.slice(tool[0].length)}`
  const message = /^messages\[(\d+)\]/.exec(param)
  if (!message) return ownNames[param] ?? param
  const origin = origins[Number(message[1])] ?? 'input'
  const rest = param.slice(message[0].length)
  // A text alone is its own content.
  if (!origin.includes('[')) return origin
  return origin + ownPlaces.reduce((place, [chat, own]) => place.replace(chat, own), rest)
}
