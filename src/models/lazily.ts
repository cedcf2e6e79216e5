import type { Model } from './model.ts'

/** A model whose adapter is loaded with the first request: a service that does not use it starts without it. */
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
    // Asked for after an answer, when it is loaded.
    get ignoredParameters() {
      return loaded?.ignoredParameters ?? null
    },
    async complete(request, signal) {
      return (await get()).complete(request, signal)
    },
    async *stream(request, signal) {
      yield* (await get()).stream(request, signal)
    },
    async close() {
      await (await loading)?.close?.()
    },
  }
}
