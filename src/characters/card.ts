/** One piece of knowledge of a character, told when one of its keys comes up. */
export interface LorebookEntry {
  readonly name: string
  readonly keys: readonly string[]
  readonly content: string
  readonly constant: boolean
  readonly insertionOrder: number
}

/** What prompting reads of a card: its texts as they stand, macros unexpanded. */
export interface Card {
  readonly name: string
  readonly nickname: string
  readonly description: string
  readonly personality: string
  readonly scenario: string
  readonly systemPrompt: string
  readonly examples: string
  /** `first_mes`, then `alternate_greetings`; empty ones stay, so that the index is the request's. */
  readonly greetings: readonly string[]
  readonly lorebook: readonly LorebookEntry[]
}

/** A card that cannot be read; its message says why without quoting it. */
export class CardError extends Error {
  override readonly name = 'CardError'
}

type Fields = Readonly<Record<string, unknown>>

/**
 * Reads a Character Card V3 from its JSON text.
 * Missing and wrong-typed optional fields count as empty, since real cards have both.
 * @throws CardError when it is not a card
 */
export function readCard(json: string): Card {
  let document: unknown
  try {
    document = JSON.parse(json.replace(/^\uFEFF/, ''))
  } catch (cause) {
    throw new CardError('it is not valid JSON', { cause })
  }
  const data = isFields(document) && isFields(document['data']) ? document['data'] : undefined
  if (data === undefined || typeof data['name'] !== 'string') throw new CardError('it is not a character card')
  const book = isFields(data['character_book']) ? data['character_book'] : {}
  return {
    name: text(data, 'name'),
    nickname: text(data, 'nickname'),
    description: text(data, 'description'),
    personality: text(data, 'personality'),
    scenario: text(data, 'scenario'),
    systemPrompt: text(data, 'system_prompt'),
    examples: text(data, 'mes_example'),
    greetings: [text(data, 'first_mes'), ...texts(data, 'alternate_greetings')],
    lorebook: list(book, 'entries').filter(isFields).filter(isEnabled).map(readEntry),
  }
}

function readEntry(entry: Fields): LorebookEntry {
  const order = entry['insertion_order']
  return {
    name: text(entry, 'name') || text(entry, 'comment'),
    keys: texts(entry, 'keys')
      .map((key) => key.trim())
      .filter((key) => key !== ''),
    content: text(entry, 'content'),
    constant: entry['constant'] === true,
    insertionOrder: typeof order === 'number' ? order : 0,
  }
}

function isEnabled(entry: Fields): boolean {
  return entry['enabled'] !== false
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function text(fields: Fields, name: string): string {
  const value = Object.hasOwn(fields, name) ? fields[name] : undefined
  return typeof value === 'string' ? value : ''
}

function list(fields: Fields, name: string): readonly unknown[] {
  const value = Object.hasOwn(fields, name) ? fields[name] : undefined
  return Array.isArray(value) ? value : []
}

function texts(fields: Fields, name: string): readonly string[] {
  return list(fields, name).filter((item) => typeof item === 'string')
}
