import type { AdapterSettings, FallbackSettings } from './settings.ts'

/** The settings of a model that has an adapter, or of a list of other models to try. */
export type ModelSettings = AdapterSettings | FallbackSettings

/** All models by name, validated, with every `${NAME}` filled in. */
export interface ModelsConfiguration {
  /** The model that the id `default` stands for. Undefined if all names are prefixes and the file does not set "default". */
  readonly default?: string
  readonly models: ReadonlyMap<string, ModelSettings>
}

/** The kinds of understudies that misbehave on purpose. */
export const misbehaviours = ['slow', 'stall', 'cut', '429', '500', 'garbage', 'empty'] as const

/** Whether the settings are a list of other models. */
export function isFallback(settings: ModelSettings): settings is FallbackSettings {
  return 'fallback' in settings
}

/**
 * Whether an id has the form of a character on a model (`character/NAME`, `MODEL/character/NAME`). The default model must not
 * have such an id.
 */
export function namesCharacter(id: string): boolean {
  return /(?:^|.\/)character\/./.test(id)
}
