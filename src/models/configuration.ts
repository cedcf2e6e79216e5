import { existsSync, readFileSync } from 'node:fs'
import type { Config, Upstream } from '../config.ts'
import type { AdapterSettings, FallbackSettings } from './settings.ts'

/** A model of the configuration: one that answers by itself, or a list of others to try. */
export type ModelSettings = AdapterSettings | FallbackSettings

/** The models of the service by name, checked, every `${NAME}` filled in. */
export interface ModelsConfiguration {
  /** The model that the id `default` stands for; none where all names are prefixes. */
  readonly default?: string
  readonly models: ReadonlyMap<string, ModelSettings>
}

/** How the understudy is, when it misbehaves on purpose. */
export const misbehaviours = ['slow', 'stall', 'cut', '429', '500', 'garbage', 'empty'] as const

/**
 * The models that the operator configured: those of `models.json`, or the defaults when there is no such file.
 * @throws ConfigError that lists every fault of the file
 */
export async function loadModels({ modelsPath, environment, upstream }: Config): Promise<ModelsConfiguration> {
  if (!existsSync(modelsPath)) return defaultModels(upstream)
  const { readModels } = await import('./models-file.ts')
  return readModels(readFileSync(modelsPath, 'utf8'), environment)
}

/** The models when there is no `models.json`: the understudy with all its manners, and the upstream of the quick way. */
export function defaultModels(upstream: Upstream | undefined): ModelsConfiguration {
  const understudies = ['understudy', ...misbehaviours.map((name) => `understudy/${name}`)]
  const models = new Map<string, ModelSettings>(understudies.map((name) => [name, { adapter: name }]))
  if (upstream) {
    const { baseUrl, apiKey } = upstream
    models.set('*', { adapter: 'openai', baseUrl, ...(apiKey === undefined ? {} : { apiKey }) })
  }
  return { default: 'understudy', models }
}

/** Tells whether these settings are a list of other models. */
export function isFallback(settings: ModelSettings): settings is FallbackSettings {
  return 'fallback' in settings
}
