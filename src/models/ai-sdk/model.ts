import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import type { SharedV4ProviderOptions } from '@ai-sdk/provider'
import type { Chunk } from '../../openai/completion.ts'
import { unixSeconds } from '../../time.ts'
import type { AiSdkSettings } from '../configuration/settings.ts'
import type { Model, ModelEvent, ModelRequest } from '../model.ts'
import { effortOf, toCallOptions } from './call-options.ts'
import { toChoice } from './choice.ts'
import { ChoiceStream, type TranslatedDelta } from './choice-stream.ts'
import { failureOfProvider } from './failure.ts'
import { createFetch } from './fetch.ts'
import type { CallOptions, GenerateResult, LanguageModel } from './language-model.ts'
import { merge } from './merge.ts'
import { dialectOf, ignoredParameters, warnedParameters } from './parameters.ts'
import { type ImportPackage, loadProvider, openModel, type ProviderOptions } from './provider.ts'
import { Scope } from './scope.ts'
import { sumOf, toUsage } from './usage.ts'

/** A model of an AI SDK provider package, and the connections to its service. */
export interface AiSdkModel extends Model {
  /**
   * Loads the package and makes the provider's model, without asking it anything.
   * @throws ProviderError with one sentence that says what to mend
   */
  prepare(): Promise<void>
  close(): Promise<void>
}

/** Messages from which translating and sending a conversation each have a turn of the event loop of their own. */
const longConversation = 1000

/** The shortest header or option that counts as a secret, as keys do at any length. Characters. */
const minimumSecretLength = 8

/**
 * A model of any AI SDK provider, by the name of its npm package, which is loaded with the first request. Requests go
 * by the package's own `doGenerate` and `doStream`, below the AI SDK's core: nothing here retries.
 */
export function createAiSdkModel(settings: AiSdkSettings, importPackage?: ImportPackage): AiSdkModel {
  const { adapter, apiKey, headers } = settings
  const dialect = dialectOf(adapter)
  const otherUrl = settings.options?.['baseURL']
  const baseUrl = settings.baseUrl ?? (typeof otherUrl === 'string' ? otherUrl : dialect.baseUrl)
  const connection = createFetch({ baseUrl, connectTimeout: settings.timeouts?.connect })
  const ownOptions = toProviderOptions(settings.providerOptions ?? {})
  const others = [...Object.values(headers ?? {}), ...Object.values(settings.options ?? {})]
  const secrets = [
    ...(apiKey === undefined ? [] : [apiKey]),
    ...others.filter((value) => typeof value === 'string').filter((value) => value.length >= minimumSecretLength),
  ]
  const failure = (error: unknown, isAnswering = false) => failureOfProvider(error, secrets, isAnswering)

  const factoryOptions: ProviderOptions = {
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(headers === undefined ? {} : { headers }),
    ...settings.options,
    ...(baseUrl === undefined ? {} : { baseURL: baseUrl }),
    fetch: connection.fetch,
  }
  let opened: Promise<LanguageModel> | undefined
  const open = (): Promise<LanguageModel> => {
    opened ??= loadProvider(adapter, importPackage)
      .then((factories) => openModel(adapter, factories, factoryOptions, settings.model))
      .catch((error: unknown) => {
        // A package that is installed later is found by a later request.
        opened = undefined
        throw error
      })
    return opened
  }

  /** Translates a request into one call for each of its choices. */
  const callsOf = async (model: LanguageModel, request: ModelRequest): Promise<readonly CallOptions[]> => {
    const { body } = request
    if (body.reasoning_effort != null && (!model.takesReasoning || effortOf(body) === undefined)) {
      request.onIgnored?.('reasoning_effort')
    }
    if (body.messages.some(({ role, name }) => name && (role === 'user' || role === 'assistant'))) {
      request.onIgnored?.('messages.name')
    }
    const providerOptions = withOwn(dialect.options(body), ownOptions)
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

  return {
    ignoredParameters: ignoredParameters(adapter),

    async complete(request, callerSignal) {
      using scope = new Scope(callerSignal)
      try {
        const model = await open()
        const calls = await callsOf(model, request)
        const results = await scope.orAborted(
          Promise.all(calls.map((options) => model.generate({ ...options, abortSignal: scope.signal }))),
        )
        tellIgnored(request, results)
        const usage = sumOf(results.map((result) => toUsage(result.usage)))
        const wantsJson = calls[0]?.responseFormat?.type === 'json'
        return {
          completion: {
            ...envelope('chat.completion', results[0]?.response?.modelId ?? settings.model),
            choices: results.map((result, index) => toChoice(result, index, wantsJson)),
            ...(usage === undefined ? {} : { usage }),
          },
        }
      } catch (error) {
        throw scope.failure(error, failure)
      }
    },

    async *stream(request, callerSignal): AsyncIterable<readonly ModelEvent[]> {
      using scope = new Scope(callerSignal)
      let head: Envelope<'chat.completion.chunk'> | undefined
      try {
        const model = await open()
        const calls = await callsOf(model, request)
        const choices = calls.map((_, index) => new ChoiceStream(index))
        let modelId: string | undefined

        const event = (pieces: readonly TranslatedDelta[], rest: Pick<Chunk, 'usage'> = {}): ModelEvent => {
          head ??= envelope('chat.completion.chunk', modelId ?? settings.model)
          return { chunk: { ...head, choices: [...pieces], ...rest } }
        }
        const partsOf = async function* (options: CallOptions, index: number) {
          const { stream } = await scope.orAborted(model.stream({ ...options, abortSignal: scope.signal }))
          for await (const part of scope.read(stream)) yield { index, part }
          yield { index, part: undefined }
        }

        for await (const { index, part } of merge(calls.map(partsOf))) {
          if (part?.type === 'error') throw part.error
          if (part?.type === 'stream-start') tellIgnored(request, [part])
          if (part?.type === 'response-metadata') modelId ??= part.modelId
          const choice = choices[index]
          const pieces = (part === undefined ? choice?.end() : choice?.next(part)) ?? []
          if (pieces.length > 0) yield pieces.map((piece) => event([piece]))
        }
        const usage = sumOf(choices.map((choice) => choice.usage))
        if (usage) yield [event([], { usage })]
      } catch (error) {
        throw scope.failure(error, (thrown) => failure(thrown, head !== undefined))
      }
    },

    async prepare() {
      await open()
    },

    close: () => connection.close(),
  }
}

interface Envelope<T extends string> {
  readonly id: string
  readonly object: T
  readonly created: number
  readonly model: string
}

function envelope<const T extends string>(object: T, model: string): Envelope<T> {
  return { id: `chatcmpl-${randomUUID()}`, object, created: unixSeconds(), model }
}

function tellIgnored(request: ModelRequest, results: readonly Pick<GenerateResult, 'warnings'>[]): void {
  const ignored = new Set(results.flatMap(({ warnings }) => warnedParameters(warnings, request.body)))
  for (const parameter of ignored) request.onIgnored?.(parameter)
}

/** The operator's own options, which came as JSON, as the AI SDK types them. */
function toProviderOptions(options: NonNullable<AiSdkSettings['providerOptions']>): SharedV4ProviderOptions {
  const copy: SharedV4ProviderOptions = JSON.parse(JSON.stringify(options))
  return copy
}

/** A request's options for the provider, under the operator's: where both say something, the operator's word counts. */
function withOwn(options: Readonly<SharedV4ProviderOptions>, own: SharedV4ProviderOptions): SharedV4ProviderOptions {
  const names = new Set([...Object.keys(options), ...Object.keys(own)])
  return Object.fromEntries([...names].map((name) => [name, { ...options[name], ...own[name] }]))
}
