import type { SharedV4ProviderOptions } from '@ai-sdk/provider'
import type { HeldBytes } from '../../http/bytes-in-flight.ts'
import type { CompletionRequest } from '../../openai/completion-request.ts'
import { calledBy, functionsOf } from '../../openai/tools.ts'
import type { ModelRequest } from '../model.ts'
import { turnScheduler, unitsOf } from '../upstream/turn-scheduler.ts'
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
 * Begins a call when the event loop has time for it (`turn-scheduler.ts`), because the package translates and writes the call
 * synchronously. A call with megabytes has a turn of its own.
 * @param begin calls the model
 * @throws the reason of the signal if the request has ended before the call begins
 */
export async function beginCall<T>(
  { parts, characters }: PromptSize,
  signal: AbortSignal,
  begin: () => PromiseLike<T>,
): Promise<T> {
  // The package reads each part of the messages, and copies all texts and files.
  await turnScheduler.take(unitsOfShortCall + unitsOfPart * parts + unitsOf(characters))
  signal.throwIfAborted()
  return await begin()
}

/** Units of a call with a short prompt, some 0.3 ms, and units of each content part. */
const unitsOfShortCall = 120
const unitsOfPart = 1

/** What a package has to translate for each call of a request. */
export interface PromptSize {
  /** The number of messages, content parts and calls. */
  readonly parts: number
  /** The number of characters in them. */
  readonly characters: number
}

/** The size of a request's messages. */
export function promptSizeOf({ messages }: CompletionRequest): PromptSize {
  let parts = messages.length
  let characters = 0
  for (const { content, tool_calls: calls } of messages) {
    if (typeof content === 'string') characters += content.length
    else {
      parts += content?.length ?? 0
      for (const { text, image_url: image, file, input_audio: audio } of content ?? []) {
        characters += (text ?? image?.url ?? file?.file_data ?? audio?.data ?? '').length
      }
    }
    parts += calls?.length ?? 0
    for (const call of calls ?? []) characters += calledBy(call).text.length
  }
  return { parts, characters }
}

/** The copies of a prompt that a package keeps until the answer has come: texts in its own form, JSON, and bytes. */
const copiesOfPrompt = 3

/**
 * Runs the calls of one request, usually all at the same time. The memory of the first call is counted with the request's body,
 * and the memory of each further call is counted too. Without room for it, the call waits until the calls before it have ended.
 * @param openHeld opens a count of bytes that ends with the request
 * @returns a function that runs a call, from its beginning to the end of its answer
 */
export function callsWithinMemory(
  { characters }: PromptSize,
  openHeld: () => Pick<HeldBytes, 'set' | 'trySet'> | undefined,
): <T>(call: () => Promise<T>) => Promise<T> {
  const bytes = copiesOfPrompt * characters
  let before: Promise<unknown> | undefined
  return (call) => {
    const earlier = before
    const held = earlier && openHeld()
    const result = earlier && held && !held.trySet(bytes) ? earlier.then(call) : call()
    before = Promise.allSettled([earlier, result.finally(() => held?.set(0))])
    return result
  }
}

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
