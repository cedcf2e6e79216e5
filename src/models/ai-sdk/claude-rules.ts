import type { LanguageModelV4FunctionTool, LanguageModelV4Prompt } from '@ai-sdk/provider'
import { field } from '../../fields.ts'
import { cacheControlOf } from './cache-control.ts'
import type { CallOptions } from './language-model.ts'
import type { Ignore, ProviderRules } from './provider-rules.ts'

/** The most characters of `metadata.user_id` (platform.claude.com/docs/en/api/messages). */
const maxUserIdLength = 256

/** The rules of Anthropic's Messages API. */
export const claudeRules: ProviderRules = {
  baseUrl: 'https://api.anthropic.com/v1',
  takes: ['parallel_tool_calls', 'user', 'cache_control'],
  lacks: ['seed', 'presence_penalty', 'frequency_penalty'],
  // platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use, "Specifying client tools"
  toolName: { taken: /^[\w-]{1,64}$/, refused: /[^\w-]/g, maxLength: 64 },
  // "String should match pattern '^[a-zA-Z0-9_-]+$'" and "`tool_use` ids must be unique", answers of the API. Bedrock: 64 letters.
  callId: { taken: /^[\w-]{1,64}$/, refused: /[^\w-]/g, maxLength: 64 },
  options(body, ignore) {
    const { parallel_tool_calls: isParallel, user } = body
    const cacheControl = cacheControlOf(body)
    const isLong = (user?.length ?? 0) > maxUserIdLength
    if (isLong) ignore('user')
    return {
      anthropic: {
        ...(isParallel == null ? {} : { disableParallelToolUse: !isParallel }),
        ...(user == null || isLong ? {} : { metadata: { userId: user } }),
        ...(cacheControl ? { cacheControl } : {}),
      },
    }
  },
  thinks,
  async adjust(options, modelId, ignore) {
    const fit = withoutUnfitThinking(withPlainSchemas(withTools(withoutBlankStops(options, ignore)), ignore), ignore)
    return limitThinking(fit, modelId, ignore)
  },
}

/** "stop_sequences: each stop sequence must contain non-whitespace", an answer of the API. */
function withoutBlankStops(options: CallOptions, ignore: Ignore): CallOptions {
  const { stopSequences: stops = [], ...rest } = options
  const kept = stops.filter((stop) => stop.trim() !== '')
  if (kept.length === stops.length) return options
  ignore('stop')
  return kept.length === 0 ? rest : { ...rest, stopSequences: kept }
}

/** "Requests which include `tool_use` or `tool_result` blocks must define tools", an answer of the API. */
function withTools(options: CallOptions): CallOptions {
  if ((options.tools?.length ?? 0) > 0) return options
  const called = new Set(options.prompt.flatMap(calledTools))
  if (called.size === 0) return options
  const tools = [...called].map(
    (name): LanguageModelV4FunctionTool => ({
      type: 'function',
      name,
      inputSchema: { type: 'object', properties: {} },
    }),
  )
  return { ...options, tools, toolChoice: { type: 'none' } }
}

/** "input_schema does not support oneOf, allOf, or anyOf at the top level", an answer of the API. */
function withPlainSchemas(options: CallOptions, ignore: Ignore): CallOptions {
  const tools = options.tools?.map((tool) => {
    if (tool.type !== 'function') return tool
    const { oneOf, allOf, anyOf, ...inputSchema } = tool.inputSchema
    if (!oneOf && !allOf && !anyOf) return tool
    ignore('tools')
    return { ...tool, inputSchema }
  })
  return tools ? { ...options, tools } : options
}

/**
 * Leaves thinking out of a request whose last turn it does not fit: "When `thinking` is enabled, a final `assistant` message must
 * start with a thinking block (preceding the lastmost set of `tool_use` and `tool_result` blocks)", an answer of the API. A message
 * that is continued cannot start with one either (platform.claude.com/docs/en/build-with-claude/extended-thinking).
 */
function withoutUnfitThinking(options: CallOptions, ignore: Ignore): CallOptions {
  if (!thinks(options) || mayThink(options.prompt)) return options
  if (options.reasoning !== undefined) ignore('reasoning_effort')
  const { reasoning: _reasoning, providerOptions, ...rest } = options
  const { thinking: _thinking, ...anthropic } = providerOptions?.['anthropic'] ?? {}
  return {
    ...rest,
    prompt: withoutThinking(options.prompt),
    ...(providerOptions && { providerOptions: { ...providerOptions, anthropic } }),
  }
}

/** Whether the request asks for thinking, or the operator's settings do. */
function thinks({ reasoning, providerOptions }: Pick<CallOptions, 'reasoning' | 'providerOptions'>): boolean {
  const type = field(providerOptions?.['anthropic']?.['thinking'], 'type')
  return type === undefined ? reasoning !== undefined && reasoning !== 'none' : type !== 'disabled'
}

/** Whether the last turn begins with signed thinking, if it calls tools, and is not continued. */
function mayThink(prompt: LanguageModelV4Prompt): boolean {
  if (prompt.at(-1)?.role === 'assistant') return false
  let turn = prompt.findLastIndex(({ role }) => role === 'assistant')
  const last = prompt[turn]
  if (!last || calledTools(last).length === 0) return true
  // The results of a loop of tools belong to the turn.
  while (prompt[turn - 1]?.role === 'tool' && prompt[turn - 2]?.role === 'assistant') turn -= 2
  const first = prompt[turn]
  return first?.role === 'assistant' && first.content[0]?.type === 'reasoning'
}

function calledTools(message: LanguageModelV4Prompt[number]): readonly string[] {
  if (message.role !== 'assistant') return []
  return message.content.flatMap((part) => (part.type === 'tool-call' ? [part.toolName] : []))
}

function withoutThinking(prompt: LanguageModelV4Prompt): LanguageModelV4Prompt {
  return prompt.map((message) =>
    message.role === 'assistant'
      ? { ...message, content: message.content.filter(({ type }) => type !== 'reasoning') }
      : message,
  )
}

/** The package, loaded at the first use: a service without Anthropic's models does not need it. */
let loading: Promise<typeof import('@ai-sdk/anthropic/internal')> | undefined

/** The smallest budget that Claude's API takes (platform.claude.com/docs/en/build-with-claude/extended-thinking). */
const minBudgetTokens = 1024

/** The share of a reply that thinking may use, by effort: the AI SDK's own values (`map-reasoning-to-provider.ts`). */
const shares = new Map([
  ['minimal', 0.02],
  ['low', 0.1],
  ['medium', 0.3],
  ['high', 0.6],
  ['xhigh', 0.9],
  ['max', 0.95],
])
/** Thinking may use at most this share of a reply. A larger share would leave no room for an answer. */
const maxShare = 0.95

/**
 * Keeps the thinking of Claude's older models, which have a thinking budget, within the tokens of the reply. Without this
 * function, the package would compute the budget from the model's maximum, and add the budget to the tokens of the reply. If the
 * reply has too few tokens for thinking, `reasoning` is left out.
 * @param modelId the model's id at the upstream
 */
async function limitThinking(options: CallOptions, modelId: string, ignore: Ignore): Promise<CallOptions> {
  const { maxOutputTokens, reasoning, providerOptions } = options
  const own = providerOptions?.['anthropic']
  const share = shares.get(reasoning ?? '')
  // If the operator has set `thinking` or `effort`, these settings count.
  if (maxOutputTokens === undefined || share === undefined || own?.['thinking'] != null || own?.['effort'] != null) {
    return options
  }
  loading ??= import('@ai-sdk/anthropic/internal')
  const { getModelCapabilities } = await loading
  const model = getModelCapabilities(modelId)
  if (model.supportsAdaptiveThinking) return options
  const maxTokens = model.isKnownModel ? Math.min(maxOutputTokens, model.maxOutputTokens) : maxOutputTokens
  if (minBudgetTokens > maxTokens * maxShare) {
    const { reasoning: _reasoning, ...rest } = options
    ignore('reasoning_effort')
    return rest
  }
  const budgetTokens = Math.max(minBudgetTokens, Math.round(maxTokens * share))
  return {
    ...options,
    maxOutputTokens: maxOutputTokens - budgetTokens,
    providerOptions: { ...providerOptions, anthropic: { ...own, thinking: { type: 'enabled', budgetTokens } } },
  }
}
