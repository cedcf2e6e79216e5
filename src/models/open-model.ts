import { join } from 'node:path'
import type { Clock } from '../clock.ts'
import { valueIn } from '../fields.ts'
import { noProxies, type Proxies } from '../proxies.ts'
import type { AdapterSettings, LlamaCppSettings, OpenAiSettings, UnderstudySettings } from './configuration/settings.ts'
import type { Model, ModelRequest } from './model.ts'
import { createUnderstudy } from './understudy/understudy.ts'

/** The options of all adapters: a folder for files, and the proxies. */
export interface AdapterOptions {
  readonly dataDirectory: string
  /** The proxies for requests to models and for downloads of weights. */
  readonly proxies?: Proxies
}

/** Opens the adapter of a model's settings. */
export function openModel(
  settings: AdapterSettings,
  { dataDirectory, proxies: allProxies = noProxies }: AdapterOptions,
  clock: Clock,
): Model {
  if (isUnderstudy(settings)) return understudyOf(settings.adapter)
  const proxies = settings.proxy === false ? noProxies : allProxies
  if (isOpenAi(settings))
    return lazily(async () => (await import('./openai-model.ts')).createOpenAiModel(settings, clock, proxies))
  if (isLlamaCpp(settings)) {
    const folder = join(dataDirectory, 'weights')
    return lazily(async () =>
      (await import('./llama-cpp/llama-cpp.ts')).createLlamaCppModel(settings, folder, { proxies }),
    )
  }
  return lazily(async () => (await import('./ai-sdk/model.ts')).createAiSdkModel(settings, undefined, proxies))
}

function isUnderstudy(settings: AdapterSettings): settings is UnderstudySettings {
  return isUnderstudyAdapter(settings.adapter)
}

/** Whether an adapter is an understudy, also one that misbehaves on purpose. */
export function isUnderstudyAdapter(adapter: string): boolean {
  return /^understudy(\/|$)/.test(adapter)
}

/** Whether an adapter is an understudy that misbehaves on purpose. */
export function isMisbehavingAdapter(adapter: string): boolean {
  return isUnderstudyAdapter(adapter) && adapter !== 'understudy'
}

function isOpenAi(settings: AdapterSettings): settings is OpenAiSettings {
  return settings.adapter === 'openai'
}

/** Whether the model is a GGUF file that runs in this process. */
export function isLlamaCpp(settings: AdapterSettings): settings is LlamaCppSettings {
  return settings.adapter === 'llama.cpp'
}

function understudyOf(adapter: string): Model {
  const understudy = createUnderstudy()
  if (adapter === 'understudy') return understudy
  return lazily(async () => {
    const { misbehavingUnderstudies } = await import('./understudy/misbehaving-understudies.ts')
    const model = valueIn(misbehavingUnderstudies(understudy), adapter.split('/')[1] ?? '')
    if (!model) throw new Error(`no understudy ${adapter}`)
    return model
  })
}

/** A model whose adapter is loaded at its first use, so that a service that never uses the adapter starts faster. */
export function lazily(load: () => Promise<Model>): Model {
  let loading: Promise<Model> | undefined
  let loaded: Model | undefined
  const get = async (): Promise<Model> => {
    loading ??= load().catch((error: unknown) => {
      loading = undefined
      throw error
    })
    loaded = await loading
    return loaded
  }
  return {
    // Callers read this property after an answer. Then the adapter is loaded.
    get ignoredParameters() {
      return loaded?.ignoredParameters ?? null
    },
    complete(request, signal) {
      return loaded ? loaded.complete(request, signal) : get().then((model) => model.complete(request, signal))
    },
    stream(request, signal) {
      return loaded ? loaded.stream(request, signal) : streamOf(get(), request, signal)
    },
    async list(signal) {
      const model = await get()
      return (await model.list?.(signal)) ?? []
    },
    async close() {
      await (await loading)?.close?.()
    },
  }
}

async function* streamOf(model: Promise<Model>, request: ModelRequest, signal: AbortSignal) {
  yield* (await model).stream(request, signal)
}
