import { noProxies } from '../../proxies.ts'
import type { AiSdkSettings } from '../configuration/settings.ts'
import type { Model, ModelEvent, ModelRequest } from '../model.ts'
import { ownTextsOf } from '../upstream/own-texts.ts'
import type { CallContext } from './bounded-answer.ts'
import { callRunner, toChoiceCalls } from './choice-calls.ts'
import { type AnswerPart, CompletionStream, toCompletion } from './completion.ts'
import { failureOfProvider } from './failure.ts'
import { createFetch, type ProviderFetch, withCallContext } from './fetch.ts'
import type { CallOptions, LanguageModel, StreamPart } from './language-model.ts'
import { merge, type Source } from './merge-streams.ts'
import { ignoredParameters, rulesOf } from './parameters.ts'
import { type ImportPackage, loadProvider, openModel, type ProviderOptions } from './provider.ts'
import { RequestScope } from './request-scope.ts'

/** A model of an AI SDK provider package, and the connections to its service. */
export interface AiSdkModel extends Model {
  /**
   * Loads the package and makes the provider's model, without sending a request.
   * @throws ProviderError whose message says what is wrong, or what to change
   */
  prepare(): Promise<void>
  close(): Promise<void>
}

/** A header or an option with fewer characters is not treated as a secret. A key of any length is a secret. */
const minSecretLength = 8

/**
 * Makes a model of any AI SDK provider. `settings.adapter` is the name of the provider's npm package. The first request, or
 * `prepare`, loads the package. Requests call the package's `doGenerate` and `doStream` directly. The AI SDK's core, which would
 * retry requests, is not used.
 */
export function createAiSdkModel(
  settings: AiSdkSettings,
  importPackage?: ImportPackage,
  proxies = noProxies,
): AiSdkModel {
  const baseUrl = baseUrlOf(settings)
  const connection = createFetch({ baseUrl, connectTimeoutMs: settings.timeouts?.connect, proxies })
  const secrets = secretsOf(settings)
  const failure = (error: unknown, isAnswering = false) => failureOfProvider(error, secrets, isAnswering)
  const open = opener(settings, baseUrl, connection, importPackage)
  const { answers } = rulesOf(settings.adapter)
  const contextOf = (request: ModelRequest, scope: RequestScope, isStream: boolean): CallContext => {
    const openHeld = isStream ? () => scope.hold(request.openHeld?.()) : request.openHeld
    return { isStream, openHeld, answers, secrets, onSent: () => request.onSent?.(true) }
  }

  return {
    ignoredParameters: ignoredParameters(settings.adapter),

    async complete(request, callerSignal) {
      using scope = new RequestScope(callerSignal)
      try {
        const model = await open()
        const asked = await toChoiceCalls(model, request, settings)
        const context = contextOf(request, scope, false)
        const run = callRunner(request.body, scope.signal)
        const generate = async (options: CallOptions) =>
          withCallContext(context, () => model.generate({ ...options, abortSignal: scope.signal }))
        const results = await scope.untilAborted(
          Promise.all(asked.calls.map((options) => run(() => generate(options)))),
        )
        return { completion: toCompletion(request, asked, results, settings.model) }
      } catch (error) {
        throw scope.toApiError(error, failure)
      }
    },

    async *stream(request, callerSignal): AsyncIterable<readonly ModelEvent[]> {
      using scope = new RequestScope(callerSignal)
      let completion: CompletionStream | undefined
      try {
        const model = await open()
        const { calls, names } = await toChoiceCalls(model, request, settings)
        completion = new CompletionStream(request, settings.model, names)
        const context = contextOf(request, scope, true)
        const run = callRunner(request.body, scope.signal)
        const answers = calls.map((options, index): Source<AnswerPart> => {
          const answer = async () =>
            withCallContext(context, () => model.stream({ ...options, abortSignal: scope.signal }))
          const parts = partsOf(answer, index, scope)
          return (take) => run(() => parts(take))
        })
        for await (const parts of merge(answers)) {
          const { events, failure: thrown } = completion.nextOf(parts)
          if (events.length > 0) yield events
          if (thrown) throw thrown.error
        }
        const usage = completion.usage()
        if (usage) yield [usage]
      } catch (error) {
        throw scope.toApiError(error, (thrown) => failure(thrown, completion?.hasBegun))
      }
    },

    async prepare() {
      await open()
    },

    close: () => connection.close(),
  }
}

/** The base URL of a model; undefined if only the package knows the URL. */
function baseUrlOf({ adapter, baseUrl, options }: AiSdkSettings): string | undefined {
  const otherUrl = options?.['baseURL']
  return baseUrl ?? (typeof otherUrl === 'string' ? otherUrl : rulesOf(adapter).baseUrl)
}

/** Texts in the settings that no error may repeat. */
function secretsOf(settings: AiSdkSettings): readonly string[] {
  const { apiKey, headers, options } = settings
  const others = textsIn(options).filter((text) => text.length >= minSecretLength)
  return [...ownTextsOf({ apiKey, headers, baseUrl: baseUrlOf(settings) }), ...others]
}

/** All texts in a value of the settings, at any depth. */
function textsIn(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : []
}

/** Returns a function that loads the package and makes the provider's model, once. */
function opener(
  { adapter, apiKey, headers, options, model }: AiSdkSettings,
  baseUrl: string | undefined,
  { fetch }: ProviderFetch,
  importPackage: ImportPackage | undefined,
): () => Promise<LanguageModel> {
  const factoryOptions: ProviderOptions = {
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(headers === undefined ? {} : { headers }),
    ...options,
    ...(baseUrl === undefined ? {} : { baseURL: baseUrl }),
    fetch,
  }
  let opened: Promise<LanguageModel> | undefined
  return () => {
    opened ??= loadProvider(adapter, importPackage)
      .then((factories) => openModel(adapter, factories, factoryOptions, model))
      .catch((error: unknown) => {
        // After a failure, the next request tries again: the package may have been installed.
        opened = undefined
        throw error
      })
    return opened
  }
}

/** The parts of the streamed answer for one choice. @param index the index of the choice */
function partsOf(
  answer: () => Promise<{ readonly stream: ReadableStream<StreamPart> }>,
  index: number,
  scope: RequestScope,
): Source<AnswerPart> {
  return async (take) => {
    const { stream } = await scope.untilAborted(answer())
    await scope.read(stream, (part) => take({ index, part }))
    take({ index, part: undefined })
  }
}
