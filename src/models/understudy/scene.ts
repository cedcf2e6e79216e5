import type { Card } from '../../characters/card.ts'
import type { Conversation } from './conversation.ts'
import { type Material, type Passage, readMaterial, userNameMark } from './material.ts'
import { createSearch, type Search } from './search.ts'

/** A part that an understudy has read. */
export interface Part {
  readonly material: Material
  readonly search: Search
}

/** One reply to be given in a part. */
export interface Scene extends Part {
  readonly conversation: Conversation
  readonly name: string
  readonly userName: string
  readonly seed: number | null
  /** Which of the request's choices it is; 0 gets the best there is. */
  readonly choice: number
}

const parts = new WeakMap<Card, Part>()

/** Gives the part that a card describes; it is read once, in some milliseconds, for as long as the card is in use. */
export function partOf(card: Card): Part {
  const known = parts.get(card)
  if (known) return known
  const material = readMaterial(card)
  const part = { material, search: createSearch(material.passages) }
  parts.set(card, part)
  return part
}

/** What the scene's picks turn on: the same for all choices, which take steps from there. */
export function chanceOf({ seed, conversation }: Pick<Scene, 'seed' | 'conversation'>): string {
  return `${seed ?? ''}/${conversation.said.length}/${conversation.question}`
}

/** Whether the character has said this text already. */
export function wasSaid(text: string, { conversation, userName }: Scene): boolean {
  const named = text.replaceAll(userNameMark, () => userName)
  return conversation.said.some((said) => said.includes(named))
}

/** A passage as the character says it; what is told about the character in the third person stays so. */
export function spoken(passage: Passage): string {
  return passage.aboutCharacter ? `It is told of me: “${passage.answer}”` : passage.answer
}
