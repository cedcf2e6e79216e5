import type { SharedV4ProviderOptions } from '@ai-sdk/provider'
import { functionsOf } from '../../openai/tools.ts'
import type { Steps } from '../../work.ts'
import type { ModelRequest } from '../model.ts'
import { effortOf, toCallOptions } from './call-options.ts'
import type { CallOptions, LanguageModel } from './language-model.ts'

/**
 * Translates a request into one call for each of its choices, and tells the request what of it is ignored.
 * @param providerOptions options for the provider's package alone
 * @param adjust changes what the package would make too much of
 * @throws ApiError 400 for messages that cannot be translated
 */
export async function toChoiceCalls(
  model: LanguageModel,
  request: ModelRequest,
  providerOptions: SharedV4ProviderOptions,
  adjust: (options: CallOptions) => Promise<CallOptions> = async (options) => options,
): Promise<readonly CallOptions[]> {
  const { body, work } = request
  tellUntranslated(model, request)
  const translated = await work.run('messages', toCallOptions(body, await model.supportedUrls, providerOptions))
  const adjusted = await adjust(translated)
  if (translated.reasoning !== adjusted.reasoning) request.onIgnored?.('reasoning_effort')
  const options = { ...adjusted, ...(request.trace ? { headers: request.trace } : {}) }
  // The APIs answer once: further choices are further calls, each with a seed of its own, or they would be alike.
  return Array.from({ length: body.n ?? 1 }, (_, index) =>
    options.seed === undefined ? options : { ...options, seed: options.seed + index },
  )
}

/**
 * Begins a call where the event loop has time for it: the provider's package translates it in one stretch.
 * @param begin asks the model
 */
export async function beginCall<T>({ work }: ModelRequest, begin: () => PromiseLike<T>): Promise<T> {
  return await work.run('n', inOneStep(begin))
}

function* inOneStep<T>(begin: () => T): Steps<T> {
  yield unitsOfCall
  return begin()
}

/** Units of work of a call, so many that the clock is looked at before the next. */
const unitsOfCall = 2000

/** Tells what the call options have no place for; what the provider ignores, it tells with its answer. */
function tellUntranslated(model: LanguageModel, request: ModelRequest): void {
  const { body } = request
  if (body.reasoning_effort != null && (!model.takesReasoning || effortOf(body) === undefined)) {
    request.onIgnored?.('reasoning_effort')
  }
  if (functionsOf(body).hasOthers) request.onIgnored?.('tools')
  if (body.messages.some(({ role, name }) => name && (role === 'user' || role === 'assistant'))) {
    request.onIgnored?.('messages.name')
  }
}
