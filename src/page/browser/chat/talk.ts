import { type Signal, signal } from '@preact/signals'
import { getJson } from '../base/api.ts'
import { characterPath } from '../base/character-path.ts'
import { Failure } from '../base/failure.ts'
import { type Message, type Swipe, shownSwipe } from './messages.ts'

/** A character, as far as one sees it who talks to it. */
export interface Character {
  readonly name: string
  readonly digest: string
  readonly has_avatar?: boolean
  readonly tags: readonly string[]
  readonly creator: string
  readonly creator_notes: string
  readonly greetings: readonly { readonly index: number; readonly text: string }[]
}

/** A reply that is coming. */
export interface Run {
  /** The message that it is for. */
  readonly messageId: number
  /** What of the message is shown by now. */
  readonly text: Signal<string>
  /** What of it has come. */
  readonly textSoFar: () => string
  readonly stop: () => void
}

/** What a conversation had before; all of it is new without it. */
interface KeptParts {
  readonly id?: string
  readonly created?: number
  readonly messages?: readonly Message[]
  readonly draft?: string
}

/** A conversation with a character. It lives outside of all components: what is shown does not matter to it. */
export class Talk {
  readonly name: string
  /** The same for all requests of the conversation: what the card picks by lot stays the same with it. */
  readonly id: string
  /** Unix milliseconds. */
  readonly created: number
  readonly messages: Signal<readonly Message[]>
  /** What is written and not sent yet. */
  readonly draft: Signal<string>
  readonly editing = signal<{ readonly id: number; readonly text: string } | undefined>(undefined)
  readonly run = signal<Run | undefined>(undefined)
  /** What a screen reader is told: that a reply begins, and the reply when it is there. */
  readonly heard = signal('')
  readonly character = signal<Character | Failure | undefined>(undefined)

  constructor(name: string, kept: KeptParts = {}) {
    this.name = name
    this.id = kept.id ?? anyId()
    this.created = kept.created ?? Date.now()
    this.messages = signal(kept.messages ?? [])
    this.draft = signal(kept.draft ?? '')
  }

  /** Whether anything was said but a greeting. */
  get hasBegun(): boolean {
    return this.messages.value.some(({ role }) => role === 'user') || this.messages.value.length > 1
  }

  /** The messages with what has come of a reply that is still coming. */
  get messagesSoFar(): readonly Message[] {
    const { value: run } = this.run
    if (!run) return this.messages.value
    return this.messages.value.map((message) => {
      if (message.id !== run.messageId) return message
      const swipe: Swipe = { ...shownSwipe(message), text: run.textSoFar() }
      return { ...message, swipes: message.swipes.with(message.shown, swipe) }
    })
  }

  /** Asks what the character tells of itself. A conversation that has nothing yet begins with its greetings. */
  async meet(): Promise<void> {
    if (this.character.value instanceof Failure) this.character.value = undefined
    try {
      const path = `${characterPath(this.name)}?conversation_id=${this.id}`
      const character = await getJson<Character>(path)
      const greetings = character.greetings.filter(({ text }) => text.trim() !== '')
      if (this.messages.value.length === 0 && greetings.length > 0 && this.character.value === undefined) {
        const at = Date.now()
        const swipes = greetings.map(({ index, text }) => ({ text, at, greeting: index }))
        this.messages.value = [{ id: 1, role: 'assistant', isOpening: true, swipes, shown: 0 }]
      }
      this.character.value = character
    } catch (error) {
      this.character.value = Failure.of(error)
    }
  }
}

/** An id that no other conversation has. `crypto.randomUUID` is there over HTTPS alone. */
function anyId(): string {
  return [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}
