import type { Upstream } from '../config.ts'
import { ApiError } from '../errors.ts'
import type { Model } from './model.ts'
import { createOpenAiModel } from './openai.ts'
import { createUnderstudy } from './understudy/understudy.ts'

/** A model as `GET /models` lists it. */
export interface ModelListing {
  readonly id: string
  readonly ownedBy: string
}

/** A model id resolved: the model behind it, its name in the registry, and the id that it goes by upstream. */
export interface ResolvedModel {
  readonly name: string
  readonly model: Model
  readonly upstreamId: string
}

/** All models of the service, by the ids that requests name them with. */
export interface ModelRegistry {
  /** @throws ApiError 404 `model_not_found` that lists what there is */
  resolve(id: string): ResolvedModel
  list(): readonly ModelListing[]
  close(): Promise<void>
}

/** The models of the quick way: the understudy, and every other id at the upstream when there is one. */
export function createRegistry(upstream: Upstream | undefined): ModelRegistry {
  const understudy = createUnderstudy()
  const openAi = upstream && createOpenAiModel(upstream)
  return {
    resolve(id) {
      if (id === 'understudy') return { name: id, model: understudy, upstreamId: id }
      if (openAi) return { name: id, model: openAi, upstreamId: id }
      throw new ApiError(
        404,
        'model_not_found',
        `There is no model ${JSON.stringify(id)} here. There is: understudy.`,
        {
          param: 'model',
        },
      )
    },
    list: () => [{ id: 'understudy', ownedBy: 'conservatory' }],
    async close() {
      await openAi?.close()
    },
  }
}
