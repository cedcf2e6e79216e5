import type { Model, ModelRequest } from './model.ts'

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
