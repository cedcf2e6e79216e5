import type { SharedV4ProviderOptions } from '@ai-sdk/provider'
import { field, valueIn } from '../../fields.ts'
import type { CompletionRequest } from '../../openai/completion-request.ts'
import type { Tool } from '../../openai/tool-fields.ts'
import { calledBy, functionsOf } from '../../openai/tools.ts'
import type { AiSdkSettings } from '../configuration/settings.ts'
import type { ModelRequest } from '../model.ts'
import { ownTurn, smallAnswerBytes } from '../upstream/answer.ts'
import { CallNames } from './call-names.ts'
import { effortOf, toCallOptions } from './call-options.ts'
import type { CallOptions, LanguageModel } from './language-model.ts'
import { rulesOf } from './parameters.ts'
import type { ProviderRules } from './provider-rules.ts'

/** One call for each choice of a request, and the names of its tools. */
export interface ChoiceCalls {
  readonly calls: readonly CallOptions[]
  readonly names: CallNames
}

/**
 * Translates a request into one call for each choice, and reports ignored parameters to the request.
 * @param own the operator's options for the provider's package. Their values have priority
 * @throws ApiError 400 for messages or a tool choice that cannot be translated
 */
export async function toChoiceCalls(
  model: LanguageModel,
  request: ModelRequest,
  { adapter, model: modelId, providerOptions: own = {} }: AiSdkSettings,
): Promise<ChoiceCalls> {
  const { body } = request
  const rules = rulesOf(adapter)
  const ignore = (parameter: string) => request.onIgnored?.(parameter)
  reportUntranslated(model, rules, request)
  const names = new CallNames(rules, (body.tools ?? []).flatMap(nameOf))
  const providerOptions = merged(rules.options(body, ignore), own)
  const translated = toCallOptions(body, await model.supportedUrls, providerOptions, rules, names)
  const adjusted = (await rules.adjust?.(translated, modelId, ignore)) ?? translated
  const options = { ...adjusted, ...(request.trace ? { headers: request.trace } : {}) }
  // The providers' APIs return one choice, so each choice is a call. Each call has another seed: with the same seed, all choices
  // would be the same.
  const calls = Array.from({ length: body.n ?? 1 }, (_, index) =>
    options.seed === undefined ? options : { ...options, seed: options.seed + index },
  )
  return { calls, names }
}

function nameOf(tool: Tool): readonly string[] {
  return tool.type === 'function' ? [tool.function.name] : []
}

/** Merges a request's options for the provider with the operator's options, as a copy with the AI SDK's type. */
function merged(
  options: Readonly<SharedV4ProviderOptions>,
  own: NonNullable<AiSdkSettings['providerOptions']>,
): SharedV4ProviderOptions {
  const copy: SharedV4ProviderOptions = JSON.parse(JSON.stringify(own))
  const names = new Set([...Object.keys(options), ...Object.keys(copy)])
  return Object.fromEntries([...names].map((name) => [name, { ...valueIn(options, name), ...valueIn(copy, name) }]))
}

/**
 * Returns a function that runs the calls of one request, each from its beginning to the end of its answer. Packages translate and
 * write a call synchronously, and keep three copies of the prompt until the answer has come. So large calls begin one at a time,
 * each in a turn of the event loop of its own, and the choices of one large request are asked one after another.
 * @param signal aborts the calls that have not begun
 */
export function callRunner(body: CompletionRequest, signal: AbortSignal): <T>(call: () => Promise<T>) => Promise<T> {
  const length = lengthOf(body)
  if (length <= smallAnswerBytes) return (call) => call()
  let last: Promise<unknown> = Promise.resolve()
  return (call) => {
    const result = last.then(async () => {
      await ownTurn(length, smallAnswerBytes)
      signal.throwIfAborted()
      return call()
    })
    last = result.catch(() => {})
    return result
  }
}

/** The characters of a request's texts and files. */
function lengthOf({ messages }: CompletionRequest): number {
  let length = 0
  for (const { content, tool_calls: calls } of messages) {
    if (typeof content === 'string') length += content.length
    else {
      for (const { text, image_url: image, file, input_audio: audio } of content ?? []) {
        length += (text ?? image?.url ?? file?.file_data ?? audio?.data ?? '').length
      }
    }
    for (const call of calls ?? []) length += calledBy(call).text.length
  }
  return length
}

/** Reports the parameters that the call options cannot express. The provider's answer reports the parameters that it ignores. */
function reportUntranslated(model: LanguageModel, rules: ProviderRules, request: ModelRequest): void {
  const { body } = request
  if (body.reasoning_effort != null && (!model.takesReasoning || effortOf(body) === undefined)) {
    request.onIgnored?.('reasoning_effort')
  }
  if (functionsOf(body).hasOthers) request.onIgnored?.('tools')
  if (body.messages.some(({ role, name }) => name && (role === 'user' || role === 'assistant'))) {
    request.onIgnored?.('messages.name')
  }
  if (!rules.takesOwnPictures && body.messages.some((message) => field(message, 'images') != null)) {
    request.onIgnored?.('messages.images')
  }
}
