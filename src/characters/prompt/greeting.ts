import { invalidField } from '../../errors.ts'
import { type Message, textOf } from '../../openai/completion-request.ts'
import type { CardTexts, Run } from './card-texts.ts'
import type { CompositionRequest } from './composition.ts'
import { greetingText } from './segments.ts'

/** Which greeting the conversation has, and whether it is still to be said. */
export interface ActiveGreeting {
  /** Undefined where it cannot be told. */
  readonly index: number | undefined
  readonly inserts: boolean
}

/**
 * Finds out which greeting is active: the one that the request names, else the one that the conversation begins with,
 * else the first where it is to be said. A conversation that the character opens has had its greeting.
 * @throws ApiError 400 for a greeting that there is not
 */
export function activeGreeting(
  texts: CardTexts,
  run: Run,
  { greeting, settings }: CompositionRequest,
  conversation: readonly Message[],
): ActiveGreeting {
  const { greetings } = texts.card
  if (greeting !== undefined && greeting >= greetings.length) {
    const last = greetings.length - 1
    throw invalidField('greeting', `is ${greeting}, but the last greeting is ${last}. Send a number up to that`)
  }
  const first = conversation[0]
  const isOpened = first?.role === 'assistant'
  const inserts = first !== undefined && !isOpened && settings.greeting !== 'never'
  if (greeting !== undefined) return { index: greeting, inserts }
  if (inserts) return { index: 0, inserts }
  return { index: isOpened ? spokenGreeting(texts, run, textOf(first)) : undefined, inserts }
}

/** The greeting that a text is, as the card has it or with its macros expanded. */
function spokenGreeting(texts: CardTexts, run: Run, text: string): number | undefined {
  const said = text.replaceAll('\r', '').trim()
  if (said === '') return undefined
  const index = texts.card.greetings.findIndex(
    (greeting, nth) => greeting.replaceAll('\r', '').trim() === said || greetingText(texts, run, nth) === said,
  )
  return index === -1 ? undefined : index
}
