import type { SharedV3Warning, SharedV4Warning } from '@ai-sdk/provider'
import type { CompletionRequest } from '../../openai/completion-request.ts'
import { claudeRules } from './claude-rules.ts'
import { geminiRules } from './gemini-rules.ts'
import { type ProviderRules, plainRules } from './provider-rules.ts'

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

const rulesByAdapter: ReadonlyMap<string, ProviderRules> = new Map([
  ['@ai-sdk/anthropic', claudeRules],
  ['@ai-sdk/google', geminiRules],
])

/** The rules of a provider package's API. */
export function rulesOf(adapter: string): ProviderRules {
  return rulesByAdapter.get(adapter) ?? plainRules
}

/**
 * The parameters that do not reach a provider package. The result has only the method `has`, because there may be any number of
 * parameter names.
 */
export function ignoredParameters(adapter: string): Pick<ReadonlySet<string>, 'has'> {
  const { takes, lacks } = rulesOf(adapter)
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
