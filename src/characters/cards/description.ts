import { type Fields, fieldsIn, isFields, listIn, numberIn, textIn, valueIn } from '../../fields.ts'
import { emptyNotes } from '../lore/lorebook.ts'
import { type Card, type CardSpec, cardData, readCard } from './card.ts'

/** What registering a card tells of it, besides its name and digest. */
export interface CardSummary {
  readonly spec: CardSpec
  readonly greetings: number
  readonly lore_entries: number
  readonly regexes: number
  /** Patterns that the engine refuses, which match nothing. */
  readonly refused_regexes: readonly string[]
  readonly remote_assets: number
  readonly has_system_prompt: boolean
  /** Where the card says what this service makes nothing of. */
  readonly ignored: readonly string[]
}

/** Fields of `data` that are read, or that are for people and for export. */
const known = new Set([
  ...['name', 'nickname', 'description', 'personality', 'scenario', 'first_mes', 'mes_example', 'alternate_greetings'],
  ...['system_prompt', 'post_history_instructions', 'character_book', 'tags', 'creator', 'character_version'],
  ...['creator_notes', 'creator_notes_multilingual', 'source', 'creation_date', 'modification_date', 'extensions'],
])
const knownExtensions = new Set(['depth_prompt', 'conservatory'])
const newestVersion = 3

/** Tells what is in a card, and what of it the service would pass over. */
export function describeCard(card: Card, document: Fields): CardSummary {
  const notes = emptyNotes()
  readCard(document, notes)
  const { spec, data } = cardData(document)
  const extensions = Object.entries(fieldsIn(data, 'extensions')).filter(
    ([name, value]) => !knownExtensions.has(name) && !isNothing(value),
  )
  const others = Object.entries(data).filter(([name, value]) => !known.has(name) && !isNothing(value))
  const version = numberIn(document, 'spec_version') ?? 0
  return {
    spec,
    greetings: card.greetings.filter((greeting) => greeting.trim() !== '').length,
    lore_entries: card.book?.written ?? 0,
    regexes: notes.patterns.compiled,
    refused_regexes: notes.patterns.refused,
    remote_assets: listIn(data, 'assets').filter(
      (asset) => isFields(asset) && /^https?:/i.test(textIn(asset, 'uri').trim()),
    ).length,
    has_system_prompt: card.systemPrompt.trim() !== '',
    ignored: [
      ...extensions.map(([name]) => `extensions.${name.slice(0, 100)}`),
      ...others.map(([name]) => name.slice(0, 100)),
      ...notes.ignored,
      ...(version > newestVersion ? [`spec_version ${String(valueIn(document, 'spec_version')).slice(0, 20)}`] : []),
    ],
  }
}

/** Nothing is lost by ignoring what is empty. */
function isNothing(value: unknown): boolean {
  if (value == null || value === '' || value === false) return true
  return typeof value === 'object' && Object.keys(value).length === 0
}
