import type { Message } from '../../openai/completion-request.ts'
import type { Steps } from '../../work.ts'
import type { Role } from '../lore/decorators.ts'
import type { CardTexts, Run } from './card-texts.ts'
import type { Lore } from './found-lore.ts'
import { loreMessage } from './segments.ts'

/** A message that is to stand so many messages before the end of the conversation. */
export interface Injection {
  readonly depth: number
  readonly role: Role
  readonly message: Message
  readonly section: 'lore_at_depth' | 'author_note' | 'depth_note'
}

/** What stands at a depth: lore by its order, then the request's note and the card's. @param length messages of the conversation */
export function* injectionsOf(
  texts: CardTexts,
  run: Run,
  lore: readonly Lore[],
  length: number,
): Steps<readonly Injection[]> {
  const injections: Injection[] = []
  for (const each of lore) {
    const place = depthOf(each, length)
    if (!place) continue
    const message = yield* loreMessage(texts, run, each, place.role)
    injections.push({ ...place, message, section: 'lore_at_depth' })
  }
  if (run.authorNote) {
    const { text, depth, role } = run.authorNote
    const message = Object.freeze({ role, content: text })
    injections.push({ depth, role, message, section: 'author_note' })
  }
  const note = texts.card.depthNote
  const prompt = note ? yield* texts.expand('depthNote', note.prompt, run) : ''
  if (note && prompt !== '') {
    const message = Object.freeze({ role: note.role, content: prompt })
    injections.push({ depth: note.depth, role: note.role, message, section: 'depth_note' })
  }
  return injections
}

function depthOf({ entry, rules }: Lore, length: number): { readonly depth: number; readonly role: Role } | null {
  if (rules.position) return null
  const placed = entry.place.section === 'depth' ? entry.place : null
  const role = rules.role ?? placed?.role ?? 'system'
  if (rules.depth !== undefined) return { depth: rules.depth, role }
  if (rules.reverseDepth !== undefined) return { depth: length - rules.reverseDepth, role }
  return placed && { depth: placed.depth, role }
}

/** What the model is to go on from: the character's words at the very end. */
export function isPrefill({ depth, role }: Injection): boolean {
  return depth <= 0 && role === 'assistant'
}

/**
 * Puts messages at their depths. Only conversation messages count, before any injection; a message never comes
 * between a tool call and its results.
 */
export function weave(messages: readonly Message[], injections: readonly Injection[]): readonly Message[] {
  if (injections.length === 0) return messages
  const places = placesIn(messages)
  const end = messages.length
  const byPlace = Map.groupBy(injections, ({ depth }) =>
    depth <= 0 ? end : (places[Math.max(0, places.length - depth)] ?? end),
  )
  const woven: Message[] = []
  for (let index = 0; index <= end; index++) {
    for (const { message } of byPlace.get(index) ?? []) woven.push(message)
    const message = messages[index]
    if (message) woven.push(message)
  }
  return woven
}

/** Where what is to stand before each message of the conversation may stand: in front of all results of a tool call. */
function placesIn(messages: readonly Message[]): readonly number[] {
  const places: number[] = []
  let place = 0
  for (const [index, message] of messages.entries()) {
    if (!isToolResult(message)) place = index
    if (isOfConversation(message)) places.push(place)
  }
  return places
}

/** Whether a message is said in the conversation, and not told to the model. */
export function isOfConversation({ role }: Message): boolean {
  return role !== 'system' && role !== 'developer'
}

/** Whether a message answers a tool call, and so cannot stand without it. */
export function isToolResult(message: Message | undefined): boolean {
  return message?.role === 'tool' || message?.role === 'function'
}
