import { type ChatRequest, type Message, shownSwipe } from './messages.ts'
import type { Settings } from './settings.ts'
import type { Talk } from './talk.ts'

/** The value of `greeting` for a conversation without a greeting. */
const noGreeting = -1

/**
 * The body of a request for a reply.
 * @param messages all messages so far. If the last message is from the character, the model continues it
 * @param seed by default the model chooses a seed
 */
export function requestFor(
  { name, id }: Pick<Talk, 'name' | 'id'>,
  messages: readonly Message[],
  { model, temperature, userName, persona }: Settings,
  seed?: number,
): ChatRequest {
  const [first, second] = messages
  const greeting = first && shownSwipe(first).greeting
  // The greeting is left out, because the service adds the greeting and writes the user's name into it.
  const isWritten = greeting !== undefined && second?.role === 'user'
  // A failed reply has no text, and some upstreams refuse a message without one.
  const said = (isWritten ? messages.slice(1) : messages).filter((message) => shownSwipe(message).text.trim() !== '')
  const opensWithUser = said[0]?.role === 'user'
  const wanted = greeting ?? (opensWithUser ? noGreeting : undefined)
  return {
    model: model || 'default',
    messages: said.map((message) => ({ role: message.role, content: shownSwipe(message).text })),
    stream: true,
    character: name,
    conversation_id: id,
    ...(wanted === undefined ? {} : { greeting: wanted }),
    ...(userName.trim() === '' ? {} : { user_name: userName.trim() }),
    ...(persona.trim() === '' ? {} : { persona }),
    ...(temperature === null ? {} : { temperature }),
    ...(seed === undefined ? {} : { seed }),
  }
}

/** A random seed. */
export function anySeed(): number {
  // Some upstreams accept only 31 bits.
  return (crypto.getRandomValues(new Uint32Array(1))[0] ?? 1) >>> 1
}
