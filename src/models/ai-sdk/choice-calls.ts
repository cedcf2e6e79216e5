import type { SharedV4ProviderOptions } from '@ai-sdk/provider'
import { functionsOf } from '../../openai/tools.ts'
import type { Steps } from '../../work.ts'
import type { ModelRequest } from '../model.ts'
import { effortOf, toCallOptions } from './call-options.ts'
import type { CallOptions, LanguageModel } from './language-model.ts'

/**
 * Translates a request into one call for each choice, and reports ignored parameters to the request.
 * @param providerOptions options for the provider's package only
 * @param adjust changes call options that the package would translate badly
 * @throws ApiError 400 for messages or a tool choice that cannot be translated; errors of the request's `work`
 */
export async function toChoiceCalls(
  model: LanguageModel,
  request: ModelRequest,
  providerOptions: SharedV4ProviderOptions,
  adjust: (options: CallOptions) => Promise<CallOptions> = async (options) => options,
): Promise<readonly CallOptions[]> {
  const { body, work } = request
  reportUntranslated(model, request)
  const translated = await work.run('messages', toCallOptions(body, await model.supportedUrls, providerOptions))
  const adjusted = await adjust(translated)
  if (translated.reasoning !== adjusted.reasoning) request.onIgnored?.('reasoning_effort')
  const options = { ...adjusted, ...(request.trace ? { headers: request.trace } : {}) }
  // The providers' APIs return one choice, so each choice is a call. Each call has another seed: with the same seed, all choices
  // would be the same.
  return Array.from({ length: body.n ?? 1 }, (_, index) =>
    options.seed === undefined ? options : { ...options, seed: options.seed + index },
  )
}

/**
 * Begins a call when the scheduler of the event loop has time for it, because the provider's package translates the call
 * synchronously.
 * @param begin calls the model
 */
export async function beginCall<T>({ work }: ModelRequest, begin: () => PromiseLike<T>): Promise<T> {
  return await work.run('n', inOneStep(begin))
}

function* inOneStep<T>(begin: () => T): Steps<T> {
  yield unitsOfCall
  return begin()
}

/** Units of work for a call. After this number of units, the scheduler reads the clock, so it does so before the next call. */
const unitsOfCall = 2000

/** Reports the parameters that the call options cannot express. The provider's answer reports the parameters that it ignores. */
function reportUntranslated(model: LanguageModel, request: ModelRequest): void {
  const { body } = request
  if (body.reasoning_effort != null && (!model.takesReasoning || effortOf(body) === undefined)) {
    request.onIgnored?.('reasoning_effort')
  }
  if (functionsOf(body).hasOthers) request.onIgnored?.('tools')
  if (body.messages.some(({ role, name }) => name && (role === 'user' || role === 'assistant'))) {
    request.onIgnored?.('messages.name')
  }
}
