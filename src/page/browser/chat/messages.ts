/** The body of this page's requests for a chat completion. */
export interface ChatRequest {
  readonly model: string
  readonly messages: readonly { readonly role: Role; readonly content: string }[]
  readonly stream: true
  readonly character: string
  readonly conversation_id: string
  readonly greeting?: number
  readonly user_name?: string
  readonly persona?: string
  readonly temperature?: number
  readonly seed?: number
}

/** The author of a message: the user, or the character. */
export type Role = 'user' | 'assistant'

/**
 * The request of a reply, and the reply's `x-request-id`, `x-character` and `x-model`. The headers are null without a successful
 * reply.
 */
export interface Origin {
  readonly request: ChatRequest
  readonly requestId: string | null
  readonly character: string | null
  readonly model: string | null
}

/** Whether a reply is by a character that has only a name. With a card, `x-character` has the digest of the card. */
export function isWithoutCard({ origin }: Swipe): boolean {
  return typeof origin?.character === 'string' && !origin.character.includes('@sha256:')
}

/** The reason why a reply is incomplete. */
export interface Ending {
  readonly kind: 'stopped' | 'length' | 'failed'
  /** A sentence for the reader. */
  readonly message: string
  readonly code?: string
}

/** One of the texts of a message. */
export interface Swipe {
  readonly text: string
  /** Unix milliseconds. */
  readonly at: number
  /** The index of the card's greeting, while the text is unchanged. */
  readonly greeting?: number
  readonly origin?: Origin
  readonly ending?: Ending
}

/** A message of a conversation. */
export interface Message {
  /** Unique in the conversation. */
  readonly id: number
  readonly role: Role
  /** Whether the message is the character's first message. No model has written this message. */
  readonly isOpening?: boolean
  /** At least one text. */
  readonly swipes: readonly Swipe[]
  /** The index of the shown text. */
  readonly shown: number
}

const nothing: Swipe = { text: '', at: 0 }

/** The shown text of a message. */
export function shownSwipe({ swipes, shown }: Message): Swipe {
  return swipes[shown] ?? swipes[0] ?? nothing
}

/** The messages with one of them changed. */
export function withMessage(
  messages: readonly Message[],
  id: number,
  change: (message: Message) => Message,
): readonly Message[] {
  return messages.map((message) => (message.id === id ? change(message) : message))
}

/** A message with its shown text changed. */
export function withShownSwipe(message: Message, change: (swipe: Swipe) => Swipe): Message {
  return { ...message, swipes: message.swipes.map((swipe, index) => (index === message.shown ? change(swipe) : swipe)) }
}

/** A message with a new text. The new text is shown. */
export function withNewSwipe(message: Message, swipe: Swipe): Message {
  return { ...message, swipes: [...message.swipes, swipe], shown: message.swipes.length }
}

/** A message that shows its previous or next text. */
export function leafed(message: Message, by: -1 | 1): Message {
  return { ...message, shown: Math.min(Math.max(0, message.shown + by), message.swipes.length - 1) }
}

/** The id of the next message. */
export function nextId(messages: readonly Message[]): number {
  return messages.reduce((highest, { id }) => Math.max(highest, id), 0) + 1
}
