import { randomUUID } from 'node:crypto'
import type { LanguageModelV4FunctionTool, LanguageModelV4Prompt } from '@ai-sdk/provider'
import { type Fields, field, fieldsIn, isFields, listIn, textIn, valueIn } from '../../fields.ts'
import { jsonOf } from '../upstream/answer.ts'
import { cacheControlOf } from './cache-control.ts'
import type { CallOptions } from './language-model.ts'
import type { AnswerEvents, Ignore, ProviderRules } from './provider-rules.ts'

/** The most characters of `metadata.user_id` (platform.claude.com/docs/en/api/messages). */
const maxUserIdLength = 256

/** The rules of Anthropic's Messages API. */
export const claudeRules: ProviderRules = {
  baseUrl: 'https://api.anthropic.com/v1',
  takes: ['parallel_tool_calls', 'user', 'cache_control'],
  lacks: ['seed', 'presence_penalty', 'frequency_penalty'],
  signer: 'anthropic',
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
  answers: { open: () => new ClaudeEvents(), join },
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

/** The texts of each kind of block that is passed on, by the type of the delta that has them. */
const deltas: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  text: { text_delta: 'text' },
  thinking: { thinking_delta: 'thinking', signature_delta: 'signature' },
  redacted_thinking: {},
  tool_use: { input_json_delta: 'partial_json' },
}

/**
 * The events of an answer of Claude (platform.claude.com/docs/en/build-with-claude/streaming). "New event types may be added, and
 * your code should handle unknown event types gracefully": events, blocks and fields that are not passed on are left out before the
 * package sees them. A text in the start of a block becomes a delta, and a missing usage is 0.
 */
class ClaudeEvents implements AnswerEvents {
  /** The types of open blocks, by index. */
  readonly #open = new Map<unknown, string>()
  #hasBegun = false
  #hasStopped = false
  #stopReason: string | undefined
  #usage: Fields = {}

  next(value: unknown): readonly Fields[] {
    if (!isFields(value)) return []
    const { type } = value
    if (type === 'error' || value['error']) return [errorEvent(value)]
    if (type === 'message') return this.#whole(value)
    if (type === 'message_start') return this.#begin(fieldsIn(value, 'message'))
    if (type === 'content_block_start') return this.#block(value['index'], fieldsIn(value, 'content_block'))
    if (type === 'content_block_delta') return this.#delta(value['index'], fieldsIn(value, 'delta'))
    if (type === 'content_block_stop') return this.#stop(value['index'])
    if (type === 'message_delta') return this.#finish(fieldsIn(value, 'delta'), value)
    return type === 'message_stop' ? this.#end() : []
  }

  end(): readonly Fields[] {
    return this.#stopReason === undefined ? [] : this.#end()
  }

  #whole(message: Fields): readonly Fields[] {
    return [...this.#begin(message), ...this.#finish(message, message), ...this.#end()]
  }

  /** Begins the message, once. Blocks may be in its beginning. */
  #begin(message: Fields): Fields[] {
    if (this.#hasBegun) return []
    this.#hasBegun = true
    const { id, model, content } = message
    const names = { ...(typeof id === 'string' && { id }), ...(typeof model === 'string' && { model }) }
    const start = { type: 'message_start', message: { ...names, usage: { input_tokens: 0, ...this.#count(message) } } }
    const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : listIn(message, 'content')
    return [
      start,
      ...blocks.flatMap((block, index) => [...this.#block(index, isFields(block) ? block : {}), ...this.#stop(index)]),
    ]
  }

  #block(index: unknown, block: Fields): readonly Fields[] {
    const type = textIn(block, 'type')
    this.#open.set(index, type)
    const kind = valueIn(deltas, type)
    if (!kind || typeof index !== 'number') return []
    const texts = Object.entries(kind).flatMap(([name, field]) => this.#delta(index, { ...block, type: name }, field))
    return [...this.#begin({}), { type: 'content_block_start', index, content_block: startOf(type, block) }, ...texts]
  }

  #delta(index: unknown, delta: Fields, from?: string): readonly Fields[] {
    const type = textIn(delta, 'type')
    const name = valueIn(valueIn(deltas, this.#open.get(index) ?? '') ?? {}, type) ?? from
    const text = name === undefined ? '' : textIn(delta, name)
    if (name === undefined || text === '') return []
    return [{ type: 'content_block_delta', index, delta: { type, [name]: text } }]
  }

  #stop(index: unknown): readonly Fields[] {
    const type = this.#open.get(index)
    this.#open.delete(index)
    return valueIn(deltas, type ?? '') ? [{ type: 'content_block_stop', index }] : []
  }

  #finish(delta: Fields, counted: Fields): readonly Fields[] {
    this.#stopReason = textIn(delta, 'stop_reason') || this.#stopReason
    const stop_sequence = textIn(delta, 'stop_sequence') || null
    const ended = { stop_reason: this.#stopReason ?? null, stop_sequence }
    return [
      ...this.#begin({}),
      { type: 'message_delta', delta: ended, usage: { output_tokens: 0, ...this.#count(counted) } },
    ]
  }

  /** The counts of all usages so far. */
  #count(counted: Fields): Fields {
    this.#usage = { ...this.#usage, ...countsIn(fieldsIn(counted, 'usage')) }
    return this.#usage
  }

  #end(): readonly Fields[] {
    if (this.#hasStopped || !this.#hasBegun) return []
    this.#hasStopped = true
    return [...[...this.#open.keys()].flatMap((index) => this.#stop(index)), { type: 'message_stop' }]
  }
}

/** The start of a block, without its text. */
function startOf(type: string, block: Fields): Fields {
  if (type === 'redacted_thinking') return { type, data: textIn(block, 'data') }
  if (type !== 'tool_use') return { type, [type]: '' }
  const id = textIn(block, 'id') || `toolu_${randomUUID().replaceAll('-', '')}`
  return { type, id, name: textIn(block, 'name'), input: fieldsIn(block, 'input') }
}

function errorEvent(value: Fields): Fields {
  const { error = value } = value
  const message = typeof error === 'string' ? error : textIn(isFields(error) ? error : {}, 'message')
  return { type: 'error', error: { type: textIn(isFields(error) ? error : {}, 'type') || 'api_error', message } }
}

const counts = ['input_tokens', 'output_tokens', 'cache_creation_input_tokens', 'cache_read_input_tokens']

function countsIn(usage: Fields): Fields {
  const known = counts.flatMap((name) => (typeof usage[name] === 'number' ? [[name, usage[name]] as const] : []))
  const thought = fieldsIn(usage, 'output_tokens_details')['thinking_tokens']
  const details = typeof thought === 'number' && { output_tokens_details: { thinking_tokens: thought } }
  return { ...Object.fromEntries(known), ...details }
}

/** The message that events make. */
function join(events: readonly Fields[]): Fields {
  let message: Fields = { type: 'message' }
  const blocks = new Map<unknown, Record<string, unknown>>()
  for (const event of events) {
    const { type, index } = event
    if (type === 'message_start') message = { ...message, ...fieldsIn(event, 'message') }
    if (type === 'content_block_start') blocks.set(index, { ...fieldsIn(event, 'content_block') })
    if (type === 'content_block_delta') addTo(blocks.get(index) ?? {}, fieldsIn(event, 'delta'))
    if (type === 'message_delta')
      message = { ...message, ...fieldsIn(event, 'delta'), usage: { input_tokens: 0, ...fieldsIn(event, 'usage') } }
  }
  const content = [...blocks.values()].map(({ partial_json: json, ...block }) => ({
    ...block,
    ...(block['type'] === 'thinking' && { signature: '', ...block }),
    ...(typeof json === 'string' && { input: jsonOf(json) ?? {} }),
  }))
  return { ...message, content }
}

function addTo(block: Record<string, unknown>, { type: _type, ...texts }: Fields): void {
  for (const [name, text] of Object.entries(texts)) block[name] = `${block[name] ?? ''}${text}`
}
