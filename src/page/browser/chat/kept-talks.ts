import type { ChatRequest, Message, Origin, Role, Swipe } from './messages.ts'
import { Talk } from './talk.ts'

/** The most characters of a stored conversation. The session storage has room for about five million characters. */
const maxCharacters = 4_000_000

/** Whether a conversation is stored, so that it survives a reload. */
export type Keeping = 'kept' | 'too large'

/** A stored conversation. Every request repeats the texts of the previous request, so each text is stored only once. */
interface KeptTalk {
  readonly account: string
  readonly id: string
  readonly created: number
  readonly draft: string
  readonly texts: readonly string[]
  readonly messages: readonly KeptMessage[]
}

type KeptMessage = Omit<Message, 'swipes'> & { readonly swipes: readonly KeptSwipe[] }
type KeptSwipe = Omit<Swipe, 'text' | 'origin'> & { readonly text: number; readonly origin?: KeptOrigin }
type KeptRequest = Omit<ChatRequest, 'messages'> & { readonly messages: readonly (readonly [Role, number])[] }
type KeptOrigin = Omit<Origin, 'request'> & { readonly request: KeptRequest }

const prefix = 'conservatory-chat:'

/** Stores a conversation in the session storage. If the conversation is too large, the previously stored state stays. */
export function keep(talk: Talk, account: string): Keeping {
  const texts = new Map<string, number>()
  const place = (text: string) => {
    const known = texts.get(text)
    if (known !== undefined) return known
    texts.set(text, texts.size)
    return texts.size - 1
  }
  const runningId = talk.run.value?.messageId
  const messages = talk.messagesSoFar.map((message) => keptMessage(message, place, message.id === runningId))
  const { id, created, draft } = talk
  const kept: KeptTalk = { account, id, created, draft: draft.value, texts: [...texts.keys()], messages }
  const json = JSON.stringify(kept)
  if (json.length > maxCharacters) return 'too large'
  try {
    sessionStorage.setItem(prefix + talk.name, json)
    return 'kept'
  } catch {
    return 'too large'
  }
}

/** The stored conversation with a character; undefined if this account has none. */
export function restore(name: string, account: string): Talk | undefined {
  try {
    const kept: KeptTalk | null = JSON.parse(sessionStorage.getItem(prefix + name) ?? 'null')
    if (kept?.account !== account) return undefined
    const messages = kept.messages.map((message) => restoredMessage(message, kept.texts))
    return new Talk(name, { ...kept, messages })
  } catch {
    // An older version of the page may have stored another shape.
    return undefined
  }
}

function keptMessage(message: Message, place: (text: string) => number, isRunning: boolean): KeptMessage {
  const { shown } = message
  const ending = { kind: 'stopped', message: 'The page was left while this reply came.' } as const
  const swipes = message.swipes.map(({ text, origin, ...rest }, index) => ({
    ...rest,
    text: place(text),
    ...(origin && { origin: keptOrigin(origin, place) }),
    ...(isRunning && index === shown && { ending }),
  }))
  return { ...message, swipes }
}

function keptOrigin({ request, ...rest }: Origin, place: (text: string) => number): KeptOrigin {
  const messages = request.messages.map(({ role, content }) => [role, place(content)] as const)
  return { ...rest, request: { ...request, messages } }
}

function restoredMessage(message: KeptMessage, texts: readonly string[]): Message {
  const textOf = (index: number) => texts[index] ?? ''
  const swipes = message.swipes.map(({ text, origin, ...rest }) => ({
    ...rest,
    text: textOf(text),
    ...(origin && { origin: restoredOrigin(origin, textOf) }),
  }))
  return { ...message, swipes }
}

function restoredOrigin({ request, ...rest }: KeptOrigin, textOf: (index: number) => string): Origin {
  const messages = request.messages.map(([role, index]) => ({ role, content: textOf(index) }))
  return { ...rest, request: { ...request, messages } }
}
