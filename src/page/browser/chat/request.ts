import { type ChatRequest, type Message, shownSwipe } from './messages.ts'
import type { Settings } from './settings.ts'
import type { Talk } from './talk.ts'

/** The `greeting` of a request whose conversation has none. */
const noGreeting = -1

/**
 * The body that asks for a reply.
 * @param messages all that is said so far; one of the character's at the end is gone on with
 * @param seed the model's own choice without it
 */
export function requestFor(
  { name, id }: Pick<Talk, 'name' | 'id'>,
  messages: readonly Message[],
  { model, temperature, userName, persona }: Settings,
  seed?: number,
): ChatRequest {
  const [first, second] = messages
  const greeting = first && shownSwipe(first).greeting
  // The service writes the greeting itself, with the user's name in it: left out, it is not told twice.
  const isWritten = greeting !== undefined && second?.role === 'user'
  const said = isWritten ? messages.slice(1) : messages
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

/** A number that makes another reply than before. */
export function anySeed(): number {
  // Some servers take no more than 31 bits.
  return (crypto.getRandomValues(new Uint32Array(1))[0] ?? 1) >>> 1
}
