import { type Message, withShownSwipe } from './messages.ts'
import { Talk } from './talk.ts'

/** The most characters of a stored conversation. The session storage has room for about five million characters. */
const maxCharacters = 4_000_000

/** Whether a conversation is stored, so that it survives a reload. */
export type Keeping = 'kept' | 'too large'

/** A stored conversation. */
interface KeptTalk {
  readonly account: string
  readonly id: string
  readonly created: number
  readonly draft: string
  readonly messages: readonly Message[]
}

const prefix = 'conservatory-chat:'

/** Texts of more characters than this are stored only once. */
const shortLength = 20

/** Stores a conversation in the session storage. If the conversation is too large, the previously stored state stays. */
export function keep(talk: Talk, account: string): Keeping {
  const { id, created, draft } = talk
  const messages = talk.messagesSoFar.map((message) =>
    message.id === talk.run.value?.messageId ? withEnding(message) : message,
  )
  const written = write({ account, id, created, draft: draft.value, messages })
  if (written.length > maxCharacters) return 'too large'
  try {
    sessionStorage.setItem(prefix + talk.name, written)
    return 'kept'
  } catch {
    return 'too large'
  }
}

/** The stored conversation with a character; undefined if this account has none. */
export function restore(name: string, account: string): Talk | undefined {
  try {
    const kept = read(sessionStorage.getItem(prefix + name) ?? '')
    return kept.account === account ? new Talk(name, kept) : undefined
  } catch {
    // Nothing is stored, or an older version of the page has stored another shape.
    return undefined
  }
}

/** A message whose reply was still coming when the page was left. */
function withEnding(message: Message): Message {
  const ending = { kind: 'stopped', message: 'The page was left while this reply came.' } as const
  return withShownSwipe(message, (swipe) => ({ ...swipe, ending }))
}

/**
 * Writes a conversation as a line of its texts, and a line of JSON with the index of each text. Every request repeats the texts of
 * the previous request, so the conversation would otherwise grow with the square of its length.
 */
function write(talk: KeptTalk): string {
  const texts = new Map<string, number>()
  const json = JSON.stringify(talk, (_name, value: unknown) => {
    if (typeof value !== 'string' || value.length <= shortLength) return value
    const place = texts.get(value) ?? texts.size
    texts.set(value, place)
    return { $: place }
  })
  return `${JSON.stringify([...texts.keys()])}\n${json}`
}

/** @throws Error for a text that `write` has not written */
function read(written: string): KeptTalk {
  const [texts = '', json = ''] = written.split('\n')
  const known: readonly string[] = JSON.parse(texts)
  return JSON.parse(json, (_name, value: unknown) => {
    const place: unknown = typeof value === 'object' && value !== null ? Reflect.get(value, '$') : undefined
    return typeof place === 'number' ? known[place] : value
  })
}
