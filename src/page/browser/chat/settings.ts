import { computed, effect, signal } from '@preact/signals'
import { identity, settingsOf } from '../base/session.ts'

/** The settings of the chat, kept in the browser for each account. */
export interface Settings {
  /** Empty for the service's default model. */
  readonly model: string
  /** Null for the model's default. */
  readonly temperature: number | null
  /** The name that the character uses for the reader. Empty for "User". */
  readonly userName: string
  /** A description of the reader. */
  readonly persona: string
}

/** A model as `GET /models` lists it. Only understudies have a description. */
export interface ListedModel {
  readonly id: string
  readonly description?: string
}

const noSettings: Settings = { model: '', temperature: null, userName: '', persona: '' }

const account = computed(() => identity.value?.account)

/** The current settings. Another account in this browser has its own settings. */
export const settings = signal(noSettings)

effect(() => {
  settings.value = account.value === undefined ? noSettings : readSettings(account.value)
})

/** Changes some of the settings. */
export function change(changes: Partial<Settings>): void {
  settings.value = { ...settings.value, ...changes }
  if (account.value === undefined) return
  try {
    localStorage.setItem(settingsOf(account.value), JSON.stringify(settings.value))
  } catch {
    // The chat also works without storage.
  }
}

function readSettings(name: string): Settings {
  const kept = parsed(localStorage.getItem(settingsOf(name)))
  const text = (field: string) => {
    const value: unknown = Reflect.get(kept, field)
    return typeof value === 'string' ? value : ''
  }
  const temperature: unknown = Reflect.get(kept, 'temperature')
  return {
    model: text('model'),
    temperature: typeof temperature === 'number' ? temperature : null,
    userName: text('userName'),
    persona: text('persona'),
  }
}

function parsed(text: string | null): object {
  try {
    const value: unknown = JSON.parse(text ?? '{}')
    return typeof value === 'object' && value !== null ? value : {}
  } catch {
    return {}
  }
}
