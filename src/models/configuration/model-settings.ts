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

/** Tells whether these settings are a list of other models. */
export function isFallback(settings: ModelSettings): settings is FallbackSettings {
  return 'fallback' in settings
}

/** Whether an id means a character that is played on a model (`character/NAME`, `MODEL/character/NAME`): it names no model behind a prefix. */
export function namesCharacter(id: string): boolean {
  return /(?:^|.\/)character\/./.test(id)
}
