import type { JSONObject, SharedV3Warning, SharedV4Warning } from '@ai-sdk/provider'
import type { CompletionRequest } from '../../openai/completion-request.ts'
import { cacheControlOf } from './cache-control.ts'
import type { CallOptions } from './language-model.ts'
import { limitThinking } from './thinking.ts'

/** The request parameters that the AI SDK's call options have a field for, or that are served without one. */
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

/** What one provider package does otherwise than the AI SDK's interface says of all. */
interface Dialect {
  /** Its own address: given, so that no environment variable that the package reads can name another. */
  readonly baseUrl?: string
  /** Parameters that it takes by its own options. */
  readonly takes: readonly string[]
  /** Parameters that its API has nothing for. */
  readonly lacks: readonly string[]
  /** Its own options for a request, by the name that it reads them under. */
  options(body: CompletionRequest): Readonly<Record<string, JSONObject>>
  /** What it needs changed of a call. @param modelId the id that the model goes by upstream */
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

/** What a provider package does otherwise than others. */
export function dialectOf(adapter: string): Dialect {
  return dialects.get(adapter) ?? plain
}

/**
 * The parameters that a provider package cannot be given: all that are not translated. A set by its test alone,
 * since the names that OpenAI or a caller may come up with have no end.
 */
export function ignoredParameters(adapter: string): Pick<ReadonlySet<string>, 'has'> {
  const { takes, lacks } = dialectOf(adapter)
  const honoured = new Set([...translated, ...takes].filter((name) => !lacks.includes(name)))
  return { has: (parameter) => !honoured.has(parameter) }
}

/** The request parameters behind the AI SDK's names of features. */
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

/** The parameters of a request that the provider warns of: it left them out, or changed them. */
export function warnedParameters(
  warnings: readonly (SharedV4Warning | SharedV3Warning)[],
  body: CompletionRequest,
): readonly string[] {
  const sent = new Set(Object.entries(body).flatMap(([name, value]) => (value == null ? [] : [name])))
  return warnings
    .flatMap((warning) => (warning.type === 'unsupported' ? (parametersByFeature.get(warning.feature) ?? []) : []))
    .filter((parameter) => sent.has(parameter))
}
