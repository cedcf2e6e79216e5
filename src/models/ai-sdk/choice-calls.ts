import { setImmediate } from 'node:timers/promises'
import type { SharedV4ProviderOptions } from '@ai-sdk/provider'
import type { ModelRequest } from '../model.ts'
import { effortOf, toCallOptions } from './call-options.ts'
import type { CallOptions, LanguageModel } from './language-model.ts'

/** Messages from which translating and sending a conversation each have a turn of the event loop of their own. */
const longConversation = 1000

/**
 * Translates a request into one call for each of its choices, and tells the request what of it is ignored.
 * @param providerOptions options for the provider's package alone
 * @throws ApiError 400 for messages that cannot be translated
 */
export async function toChoiceCalls(
  model: LanguageModel,
  request: ModelRequest,
  providerOptions: SharedV4ProviderOptions,
): Promise<readonly CallOptions[]> {
  const { body } = request
  tellUntranslated(model, request)
  const isLong = body.messages.length > longConversation
  if (isLong) await setImmediate()
  const options = {
    ...toCallOptions(body, await model.supportedUrls, providerOptions),
    ...(request.trace ? { headers: request.trace } : {}),
  }
  if (isLong) await setImmediate()
  // The APIs answer once: further choices are further calls, each with a seed of its own, or they would be alike.
  return Array.from({ length: body.n ?? 1 }, (_, index) =>
    options.seed === undefined ? options : { ...options, seed: options.seed + index },
  )
}

/** Tells what the call options have no place for; what the provider ignores, it tells with its answer. */
function tellUntranslated(model: LanguageModel, request: ModelRequest): void {
  const { body } = request
  if (body.reasoning_effort != null && (!model.takesReasoning || effortOf(body) === undefined)) {
    request.onIgnored?.('reasoning_effort')
  }
  if (body.messages.some(({ role, name }) => name && (role === 'user' || role === 'assistant'))) {
    request.onIgnored?.('messages.name')
  }
}
