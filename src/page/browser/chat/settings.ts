import { effect, signal } from '@preact/signals'

/** The settings of the chat, kept in the browser. */
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

const storedAs = 'conservatory-chat-settings'

/** The current settings. */
export const settings = signal<Settings>(readSettings())

effect(() => {
  try {
    localStorage.setItem(storedAs, JSON.stringify(settings.value))
  } catch {
    // The chat also works without storage.
  }
})

/** Changes some of the settings. */
export function change(changes: Partial<Settings>): void {
  settings.value = { ...settings.value, ...changes }
}

function readSettings(): Settings {
  const kept = parsed(localStorage.getItem(storedAs))
  const text = (name: string) => {
    const value: unknown = Reflect.get(kept, name)
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
