import { effect, signal } from '@preact/signals'

/** How the reader wants to chat; kept in the browser. */
export interface Settings {
  /** Empty for the one that the service has as its default. */
  readonly model: string
  /** null for the model's own. */
  readonly temperature: number | null
  /** What the character calls the reader; empty for "User". */
  readonly userName: string
  /** Who the reader is. */
  readonly persona: string
}

const storedAs = 'conservatory-chat-settings'

/** The settings as they are now. */
export const settings = signal<Settings>(readSettings())

effect(() => {
  try {
    localStorage.setItem(storedAs, JSON.stringify(settings.value))
  } catch {
    // A browser that keeps nothing still chats.
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
