/** The body of a chat completion, as this page sends it. */
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

/** Who says something: the user, or the character. */
export type Role = 'user' | 'assistant'

/** How a reply came to be. */
export interface Origin {
  readonly request: ChatRequest
  /** What the headers of the reply said. */
  readonly requestId: string | null
  readonly character: string | null
  readonly model: string | null
}

/** Why a reply is not whole. */
export interface Ending {
  readonly kind: 'stopped' | 'length' | 'failed'
  /** A sentence for the reader. */
  readonly message: string
  readonly code?: string
}

/** One of the texts that a message has had; one of them is shown. */
export interface Swipe {
  readonly text: string
  /** Unix milliseconds. */
  readonly at: number
  /** The index of the card's greeting that this is, as long as nobody has changed it. */
  readonly greeting?: number
  readonly origin?: Origin
  readonly ending?: Ending
}

/** A message of a conversation. */
export interface Message {
  /** Within the conversation. */
  readonly id: number
  readonly role: Role
  /** Whether the character opens the conversation with it, so that no model has written it. */
  readonly isOpening?: boolean
  /** At least one. */
  readonly swipes: readonly Swipe[]
  /** The index of the one that is shown. */
  readonly shown: number
}

const nothing: Swipe = { text: '', at: 0 }

/** The text of a message that is shown. */
export function shownSwipe({ swipes, shown }: Message): Swipe {
  return swipes[shown] ?? swipes[0] ?? nothing
}

/** The messages with another one in the place of one of them. */
export function withMessage(
  messages: readonly Message[],
  id: number,
  change: (message: Message) => Message,
): readonly Message[] {
  return messages.map((message) => (message.id === id ? change(message) : message))
}

/** A message with another text in the place of the one that is shown. */
export function withShownSwipe(message: Message, change: (swipe: Swipe) => Swipe): Message {
  return { ...message, swipes: message.swipes.map((swipe, index) => (index === message.shown ? change(swipe) : swipe)) }
}

/** A message after one more text, which is shown. */
export function withNewSwipe(message: Message, swipe: Swipe): Message {
  return { ...message, swipes: [...message.swipes, swipe], shown: message.swipes.length }
}

/** A message with the text before or after the one that is shown. */
export function leafed(message: Message, by: -1 | 1): Message {
  return { ...message, shown: Math.min(Math.max(0, message.shown + by), message.swipes.length - 1) }
}

/** The id of the next message. */
export function nextId(messages: readonly Message[]): number {
  return messages.reduce((highest, { id }) => Math.max(highest, id), 0) + 1
}
