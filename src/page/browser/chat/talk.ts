import { type Signal, signal } from '@preact/signals'
import { anyId } from '../base/any-id.ts'
import { getJson } from '../base/api.ts'
import { characterPath } from '../base/characters.ts'
import { Failure } from '../base/failure.ts'
import { type Message, type Swipe, shownSwipe } from './messages.ts'
import { settings } from './settings.ts'

/** The details of a character that the chat shows. */
export interface Character {
  readonly name: string
  readonly digest: string
  readonly has_avatar?: boolean
  readonly tags: readonly string[]
  readonly creator: string
  readonly creator_notes: string
  readonly greetings: readonly { readonly index: number; readonly text: string }[]
}

/** A reply that is being streamed. */
export interface Run {
  /** The message of the reply. */
  readonly messageId: number
  /** The text that is shown. The newest pieces may be missing. */
  readonly text: Signal<string>
  /** The whole text that has arrived so far. */
  readonly textSoFar: () => string
  readonly stop: () => void
}

/** The stored parts of a conversation. A new conversation has none of them. */
interface KeptParts {
  readonly id?: string
  readonly created?: number
  readonly messages?: readonly Message[]
  readonly draft?: string
}

/**
 * A conversation with a character. It is not part of a component, so that replies continue while the conversation is not shown.
 */
export class Talk {
  readonly name: string
  /** The `conversation_id` of all requests. With the same id, the card's random choices stay the same. */
  readonly id: string
  /** Unix milliseconds. */
  readonly created: number
  readonly messages: Signal<readonly Message[]>
  /** The text that is not sent yet. */
  readonly draft: Signal<string>
  readonly editing = signal<{ readonly id: number; readonly text: string } | undefined>(undefined)
  readonly run = signal<Run | undefined>(undefined)
  /** The text for screen readers. It says that a reply begins, and later it is the complete reply. */
  readonly announcement = signal('')
  readonly character = signal<Character | Failure | undefined>(undefined)

  constructor(name: string, kept: KeptParts = {}) {
    this.name = name
    this.id = kept.id ?? anyId()
    this.created = kept.created ?? Date.now()
    this.messages = signal(kept.messages ?? [])
    this.draft = signal(kept.draft ?? '')
  }

  /** Whether there is a message other than the greeting. */
  get hasBegun(): boolean {
    return this.messages.value.some(({ role }) => role === 'user') || this.messages.value.length > 1
  }

  /** The messages. They include the text of the running reply that has already come. */
  get messagesSoFar(): readonly Message[] {
    const { value: run } = this.run
    if (!run) return this.messages.value
    return this.messages.value.map((message) => {
      if (message.id !== run.messageId) return message
      const swipe: Swipe = { ...shownSwipe(message), text: run.textSoFar() }
      return { ...message, swipes: message.swipes.with(message.shown, swipe) }
    })
  }

  /**
   * Loads the character, with the reader's name in its greetings. An empty conversation then begins with the greetings. An opening
   * that the reader has not changed gets their texts, because the model is told these texts.
   */
  async loadCharacter(): Promise<void> {
    if (this.character.value instanceof Failure) this.character.value = undefined
    try {
      const query = new URLSearchParams({ conversation_id: this.id, user_name: settings.value.userName })
      const character = await getJson<Character>(`${characterPath(this.name)}?${query}`)
      const greetings = character.greetings.filter(({ text }) => text.trim() !== '')
      const [opening, ...later] = this.messages.value
      if (!opening && greetings.length > 0 && this.character.value === undefined) {
        const at = Date.now()
        const swipes = greetings.map(({ index, text }) => ({ text, at, greeting: index }))
        this.messages.value = [{ id: 1, role: 'assistant', isOpening: true, swipes, shown: 0 }]
      } else if (opening?.isOpening) {
        const textOf = new Map(greetings.map(({ index, text }) => [index, text]))
        const swipes = opening.swipes.map((swipe) => ({
          ...swipe,
          text: textOf.get(swipe.greeting ?? -1) ?? swipe.text,
        }))
        this.messages.value = [{ ...opening, swipes }, ...later]
      }
      this.character.value = character
    } catch (error) {
      this.character.value = Failure.of(error)
    }
  }
}
