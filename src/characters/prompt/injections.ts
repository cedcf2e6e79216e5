import type { Message } from '../../openai/completion-request.ts'
import type { Steps } from '../../work.ts'
import type { Role } from '../lore/decorators.ts'
import type { CardTexts, Run } from './card-texts.ts'
import type { AuthorNote } from './composition.ts'
import type { Lore } from './found-lore.ts'
import { loreMessage } from './segments.ts'

/** A message that is to stand so many messages before the end of the conversation. */
export interface Injection {
  readonly depth: number
  readonly role: Role
  readonly message: Message
  readonly section: 'lore_at_depth' | 'author_note' | 'depth_note'
}

/** Where lore around the author's note stands in a request without one, as in SillyTavern. */
const noNote: AuthorNote = { text: '', depth: 4, role: 'system' }

/** What stands at a depth: lore by its order, then the request's note and the card's. @param length messages of the conversation */
export function* injectionsOf(
  texts: CardTexts,
  run: Run,
  lore: readonly Lore[],
  length: number,
): Steps<readonly Injection[]> {
  const injections: Injection[] = []
  const { text, depth, role } = run.authorNote ?? noNote
  const around = { above_note: '', below_note: '' }
  for (const each of lore) {
    const place = depthOf(each, length, depth)
    if (place === null) continue
    if (typeof place === 'string') {
      around[place] += `${each.body}\n`
      continue
    }
    const message = yield* loreMessage(texts, run, each, place.role)
    injections.push({ ...place, message, section: 'lore_at_depth' })
  }
  const noted = `${around.above_note}${text}\n${around.below_note}`.trim()
  if (noted !== '') {
    const message = { role, content: noted }
    injections.push({ depth, role, message, section: run.authorNote ? 'author_note' : 'lore_at_depth' })
  }
  const note = texts.card.depthNote
  const prompt = note ? yield* texts.expand('depthNote', note.prompt, run) : ''
  if (note && prompt !== '') {
    const message = { role: note.role, content: prompt }
    injections.push({ depth: note.depth, role: note.role, message, section: 'depth_note' })
  }
  return injections
}

/**
 * Where an entry stands: at a depth, above or below the author's note, or elsewhere (null).
 * @param noteDepth where one around the note stands that asks for a role, and so is a message of its own
 */
function depthOf(
  { entry: { place }, rules }: Lore,
  length: number,
  noteDepth: number,
): { readonly depth: number; readonly role: Role } | 'above_note' | 'below_note' | null {
  if (rules.position) return null
  const role = rules.role ?? (place.section === 'depth' ? place.role : 'system')
  if (rules.depth !== undefined) return { depth: rules.depth, role }
  if (rules.reverseDepth !== undefined) return { depth: length - rules.reverseDepth, role }
  if (place.section === 'depth') return { depth: place.depth, role }
  if (place.section !== 'above_note' && place.section !== 'below_note') return null
  return rules.role ? { depth: noteDepth, role } : place.section
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
