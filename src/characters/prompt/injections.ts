import type { Message } from '../../openai/completion-request.ts'
import type { Role } from '../lore/decorators.ts'
import type { CardTexts, ExpansionContext } from './card-texts.ts'
import type { AuthorNote } from './composition.ts'
import type { Lore } from './found-lore.ts'

/** A message, and its place: `depth` messages before the end of the conversation. */
export interface Injection {
  readonly depth: number
  readonly role: Role
  readonly message: Message
  readonly section: 'lore_at_depth' | 'author_note' | 'depth_note'
}

/** The place of lore around the author's note if the request has no note, as in SillyTavern. */
const noNote: AuthorNote = { text: '', depth: 4, role: 'system' }

/**
 * All injections: lore in its order, the author's note, the card's depth note.
 * @param length the number of conversation messages
 */
export function injectionsOf(
  texts: CardTexts,
  context: ExpansionContext,
  lore: readonly Lore[],
  length: number,
): readonly Injection[] {
  const injections: Injection[] = []
  const { text, depth, role } = context.authorNote ?? noNote
  const around = { above_note: '', below_note: '' }
  for (const each of lore) {
    const place = depthOf(each, length, depth)
    if (place === null) continue
    if (typeof place === 'string') {
      around[place] += `${each.body}\n`
      continue
    }
    injections.push({ ...place, message: { role: place.role, content: each.body }, section: 'lore_at_depth' })
  }
  const noted = `${around.above_note}${text}\n${around.below_note}`.trim()
  if (noted !== '') {
    const message = { role, content: noted }
    injections.push({ depth, role, message, section: context.authorNote ? 'author_note' : 'lore_at_depth' })
  }
  const note = texts.card.depthNote
  const prompt = note ? texts.expand('depthNote', note.prompt, context) : ''
  if (note && prompt !== '') {
    const { depth, role } = note
    injections.push({ depth, role, message: { role, content: prompt }, section: 'depth_note' })
  }
  return injections
}

/**
 * The place of an entry: at a depth, above or below the author's note, or elsewhere (null).
 * @param noteDepth the depth of the author's note. An entry beside the note with its own `@@role` is a message at this depth
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

/** Whether an injection is a prefill: the beginning of the reply, which the model continues. */
export function isPrefill({ depth, role }: Injection): boolean {
  return depth <= 0 && role === 'assistant'
}

/**
 * Inserts messages at their depths. Depths count only messages of the conversation, not injections. No message is inserted
 * between a tool call and its results.
 */
export function insertInjections(messages: readonly Message[], injections: readonly Injection[]): readonly Message[] {
  if (injections.length === 0) return messages
  const places = placesIn(messages)
  const end = messages.length
  const byPlace = Map.groupBy(injections, ({ depth }) =>
    depth <= 0 ? end : (places[Math.max(0, places.length - depth)] ?? end),
  )
  const inserted: Message[] = []
  for (let index = 0; index <= end; index++) {
    for (const { message } of byPlace.get(index) ?? []) inserted.push(message)
    const message = messages[index]
    if (message) inserted.push(message)
  }
  return inserted
}

/**
 * For each message of the conversation, the index at which an injection before this message is inserted. For a tool result, it is
 * the index of the message with the tool call.
 */
function placesIn(messages: readonly Message[]): readonly number[] {
  const places: number[] = []
  let place = 0
  for (const [index, message] of messages.entries()) {
    if (!isToolResult(message)) place = index
    if (isOfConversation(message)) places.push(place)
  }
  return places
}

/** Whether a message is part of the conversation, and not an instruction to the model. */
export function isOfConversation({ role }: Message): boolean {
  return role !== 'system' && role !== 'developer'
}

/** Whether a message is the result of a tool call, and so must follow the call. */
export function isToolResult(message: Message | undefined): boolean {
  return message?.role === 'tool' || message?.role === 'function'
}
