import type {
  JSONSchema7,
  LanguageModelV4FunctionTool,
  LanguageModelV4ToolChoice,
  SharedV4ProviderOptions,
} from '@ai-sdk/provider'
import { type CompletionRequest, maxReplyTokensOf } from '../../openai/completion-request.ts'
import type { FunctionTool } from '../../openai/tool-fields.ts'
import { type Functions, functionsOf } from '../../openai/tools.ts'
import { cacheOptions } from './cache-control.ts'
import { CallNames } from './call-names.ts'
import type { CallOptions } from './language-model.ts'
import type { SupportedUrls } from './media.ts'
import { toPrompt } from './prompt.ts'
import { type ProviderRules, plainRules } from './provider-rules.ts'

/** OpenAI's values of `reasoning_effort`, which the AI SDK uses too. */
const efforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const

/**
 * Translates a request to the AI SDK's call options (`LanguageModelV4CallOptions`).
 * @throws ApiError 400 for messages or a tool choice that cannot be translated
 */
export function toCallOptions(
  body: CompletionRequest,
  supported: SupportedUrls,
  providerOptions: SharedV4ProviderOptions,
  rules: ProviderRules = plainRules,
  names = new CallNames(),
): CallOptions {
  const { functions, choice } = functionsOf(body)
  const thinks = rules.thinks?.({ ...present({ reasoning: effortOf(body) }), providerOptions })
  return {
    prompt: toPrompt(body.messages, supported, { names, thinks, rules }),
    ...present({
      maxOutputTokens: maxReplyTokensOf(body),
      temperature: body.temperature,
      topP: body.top_p,
      presencePenalty: body.presence_penalty,
      frequencyPenalty: body.frequency_penalty,
      stopSequences: stopSequences(body.stop),
      seed: body.seed,
      responseFormat: responseFormat(body.response_format),
      reasoning: effortOf(body),
    }),
    ...(functions.length === 0
      ? {}
      : { tools: toTools(functions, names), ...present({ toolChoice: toolChoice(choice, names) }) }),
    ...(Object.keys(providerOptions).length === 0 ? {} : { providerOptions }),
  }
}

/** The reasoning effort of a request; undefined if it is missing or unknown. */
export function effortOf({ reasoning_effort }: CompletionRequest): CallOptions['reasoning'] {
  return efforts.find((effort) => effort === reasoning_effort)
}

/** The fields that have a value. */
function present<T extends Readonly<Record<string, unknown>>>(fields: T): { [K in keyof T]?: NonNullable<T[K]> } {
  const found: { [K in keyof T]?: NonNullable<T[K]> } = {}
  for (const name in fields) {
    const value = fields[name]
    if (value !== undefined && value !== null) found[name] = value
  }
  return found
}

function stopSequences(stop: CompletionRequest['stop']): string[] | undefined {
  const sequences = (typeof stop === 'string' ? [stop] : (stop ?? [])).filter((text) => text !== '')
  return sequences.length === 0 ? undefined : sequences
}

function responseFormat(format: CompletionRequest['response_format']): CallOptions['responseFormat'] {
  if (format?.type === 'json_object') return { type: 'json' }
  if (format?.type !== 'json_schema') return undefined
  const { schema, name, description } = format.json_schema ?? {}
  return { type: 'json', ...present({ schema: isSchema(schema) ? schema : undefined, name, description }) }
}

/** The tools, each name once: providers refuse a name that comes twice. The last tool with a name counts. */
function toTools(offered: readonly FunctionTool[], names: CallNames): LanguageModelV4FunctionTool[] {
  const tools = offered.map((tool) => toTool(tool, names))
  return [...new Map(tools.map((tool) => [tool.name, tool])).values()]
}

function toTool(offered: FunctionTool, names: CallNames): LanguageModelV4FunctionTool {
  const { function: tool } = offered
  // A tool without parameters takes an empty object. The schema gets a type, because Anthropic refuses a schema without a type.
  const inputSchema = { type: 'object', ...(tool.parameters ?? { properties: {} }) }
  return {
    type: 'function',
    name: names.tool(tool.name),
    inputSchema: isSchema(inputSchema) ? inputSchema : {},
    ...present({ description: tool.description, strict: tool.strict }),
    ...cacheOptions(offered, tool),
  }
}

/** Whether a value may be a JSON Schema. Only the provider can check the schema itself. */
function isSchema(value: unknown): value is JSONSchema7 {
  return typeof value === 'object' && value !== null
}

function toolChoice(choice: Functions['choice'], names: CallNames): LanguageModelV4ToolChoice | undefined {
  if (choice === undefined) return undefined
  return typeof choice === 'string' ? { type: choice } : { type: 'tool', toolName: names.tool(choice.name) }
}
