import { type Fields, fieldsIn, isFields, numberIn, textIn, textsIn, valueIn } from '../../fields.ts'
import { withoutControls } from '../../text.ts'
import type { Role } from '../lore/decorators.ts'
import type { ReadingNotes } from '../lore/entry.ts'
import { checkDocument, emptyNotes, type Lorebook, readBook } from '../lore/lorebook.ts'
import { aboutCard } from './summary.ts'
import { type CardSpec, cardData } from './versions.ts'

/** A text that is inserted `depth` messages before the end of the conversation (SillyTavern's "character note"). */
export interface DepthNote {
  readonly prompt: string
  readonly depth: number
  readonly role: Role
}

/** The fields of a card that prompts are made of, with unexpanded macros. */
export interface Card {
  readonly spec?: CardSpec
  readonly name: string
  readonly nickname: string
  readonly description: string
  readonly personality: string
  readonly scenario: string
  readonly systemPrompt: string
  readonly postHistory?: string
  readonly examples: string
  /** `first_mes`, then `alternate_greetings`. Empty greetings stay, because a request's `greeting` is an index of this list. */
  readonly greetings: readonly string[]
  readonly depthNote?: DepthNote
  /** The id of the model that the card asks for (`extensions.conservatory.model`). */
  readonly model?: string
  readonly book?: Lorebook
  /** Tags, by which lore entries can be restricted to some characters. */
  readonly tags?: readonly string[]
}

const standardDepth = 4
/** The most characters of the model id in a card; a longer one is ignored. */
export const maxModelLength = 200

/** The most characters of a name or nickname in a card. */
const maxNameLength = 1000

/**
 * Reads a card of version 1, 2 or 3 from its parsed document. A field that is missing or has a wrong type counts as empty,
 * because real cards have such faults. Only own properties are read.
 * @param notes receives counts and ignored fields
 * @throws CardError if the document is not a card, is nested too deeply, or has too many lorebook entries
 */
export function readCard(document: Fields, notes: ReadingNotes = emptyNotes()): Card {
  checkDocument(document, 'card')
  const { spec, data } = cardData(document)
  const bookFields = valueIn(data, 'character_book')
  const book = isFields(bookFields) ? readBook(bookFields, notes) : undefined
  const model = textIn(fieldsIn(fieldsIn(data, 'extensions'), 'conservatory'), 'model').trim()
  const depthNote = readDepthNote(fieldsIn(fieldsIn(data, 'extensions'), 'depth_prompt'))
  return {
    spec,
    name: nameIn(data, 'name', notes),
    // A blank nickname counts as missing.
    nickname: withoutControls(nameIn(data, 'nickname', notes)).trim(),
    description: textIn(data, 'description'),
    personality: textIn(data, 'personality'),
    scenario: textIn(data, 'scenario'),
    systemPrompt: textIn(data, 'system_prompt'),
    postHistory: textIn(data, 'post_history_instructions'),
    examples: textIn(data, 'mes_example'),
    greetings: [textIn(data, 'first_mes'), ...textsIn(data, 'alternate_greetings')],
    ...(depthNote ? { depthNote } : {}),
    ...(model === '' || model.length > maxModelLength ? {} : { model }),
    ...(book ? { book } : {}),
    tags: aboutCard(document).tags,
  }
}

/** A name of the character; empty if it is missing or too long. */
function nameIn(data: Fields, field: 'name' | 'nickname', { ignored }: ReadingNotes): string {
  const name = textIn(data, field)
  if (name.length <= maxNameLength) return name
  ignored.add(`${field} of more than ${maxNameLength} characters`)
  return ''
}

function readDepthNote(note: Fields): DepthNote | undefined {
  const prompt = textIn(note, 'prompt')
  if (prompt.trim() === '') return undefined
  const role = valueIn(note, 'role')
  return {
    prompt,
    depth: Math.floor(numberIn(note, 'depth') ?? standardDepth),
    role: role === 'user' || role === 'assistant' ? role : 'system',
  }
}
