import type { JSONObject, SharedV3Warning, SharedV4Warning } from '@ai-sdk/provider'
import type { CompletionRequest } from '../../openai/completion-request.ts'
import { cacheControlOf } from './cache-control.ts'
import type { CallOptions } from './language-model.ts'
import { limitThinking } from './thinking.ts'

/** Request parameters that have a field in the AI SDK's call options, or that need no such field. */
const translated = [
  'model',
  'messages',
  'stream',
  'stream_options',
  'n',
  'max_tokens',
  'max_completion_tokens',
  'temperature',
  'top_p',
  'presence_penalty',
  'frequency_penalty',
  'stop',
  'seed',
  'tools',
  'tool_choice',
  'response_format',
  'reasoning_effort',
]

/** The differences of one provider package from the AI SDK's common interface. */
interface Dialect {
  /** The provider's address. The package reads environment variables, and this value keeps them from replacing the address. */
  readonly baseUrl?: string
  /** Parameters that `options` translates to the provider's own options. */
  readonly takes: readonly string[]
  /** Parameters that the provider's API does not have. */
  readonly lacks: readonly string[]
  /** The provider's own options for a request, by the name under which the package reads them. */
  options(body: CompletionRequest): Readonly<Record<string, JSONObject>>
  /** Changes call options for this provider. @param modelId the model's id at the upstream */
  adjust?(options: CallOptions, modelId: string): Promise<CallOptions>
}

const plain: Dialect = { takes: [], lacks: [], options: () => ({}) }

const dialects: ReadonlyMap<string, Dialect> = new Map<string, Dialect>([
  [
    '@ai-sdk/anthropic',
    {
      baseUrl: 'https://api.anthropic.com/v1',
      takes: ['parallel_tool_calls', 'user', 'cache_control'],
      lacks: ['seed', 'presence_penalty', 'frequency_penalty'],
      options: (body: CompletionRequest) => {
        const { parallel_tool_calls, user } = body
        const cacheControl = cacheControlOf(body)
        return {
          anthropic: {
            ...(parallel_tool_calls == null ? {} : { disableParallelToolUse: !parallel_tool_calls }),
            ...(user == null ? {} : { metadata: { userId: user } }),
            ...(cacheControl ? { cacheControl } : {}),
          },
        }
      },
      adjust: limitThinking,
    },
  ],
])

/** The differences of a provider package; no differences for an unknown package. */
export function dialectOf(adapter: string): Dialect {
  return dialects.get(adapter) ?? plain
}

/**
 * The parameters that do not reach a provider package. The result has only the method `has`, because there may be any number of
 * parameter names.
 */
export function ignoredParameters(adapter: string): Pick<ReadonlySet<string>, 'has'> {
  const { takes, lacks } = dialectOf(adapter)
  const honoured = new Set([...translated, ...takes].filter((name) => !lacks.includes(name)))
  return { has: (parameter) => !honoured.has(parameter) }
}

/** Request parameters by the AI SDK's names of features. */
const parametersByFeature: ReadonlyMap<string, readonly string[]> = new Map([
  ['maxOutputTokens', ['max_completion_tokens', 'max_tokens']],
  ['temperature', ['temperature']],
  ['topP', ['top_p']],
  ['presencePenalty', ['presence_penalty']],
  ['frequencyPenalty', ['frequency_penalty']],
  ['stopSequences', ['stop']],
  ['seed', ['seed']],
  ['responseFormat', ['response_format']],
  ['toolChoice', ['tool_choice']],
  ['reasoning', ['reasoning_effort']],
])

/** The parameters of a request that the provider left out or changed, as its warnings say. */
export function warnedParameters(
  warnings: readonly (SharedV4Warning | SharedV3Warning)[],
  body: CompletionRequest,
): readonly string[] {
  const sent = new Set(Object.entries(body).flatMap(([name, value]) => (value == null ? [] : [name])))
  return warnings
    .flatMap((warning) => (warning.type === 'unsupported' ? (parametersByFeature.get(warning.feature) ?? []) : []))
    .filter((parameter) => sent.has(parameter))
}
