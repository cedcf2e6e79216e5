import { type Fields, fieldsIn, isFields, listIn, numberIn, valueIn } from '../../fields.ts'
import { spend } from '../../work/fuel.ts'
import { isEmptyValue, type ReadingNotes } from '../lore/entry.ts'
import { neverFiring } from '../lore/never-fires.ts'
import { uriOf } from './assets.ts'
import type { Card } from './card.ts'
import { misreadOf } from './misread.ts'
import type { CardSource } from './source.ts'
import { cardData } from './versions.ts'

/** The summary of a card in the reply to an upload, which also has the name and the digest. */
export type CardSummary = ReturnType<typeof describeCard>

/** Fields of `data` that are not reported as ignored: fields for prompts, for users and for exports. */
const known = new Set([
  ...['name', 'nickname', 'description', 'personality', 'scenario', 'first_mes', 'mes_example', 'alternate_greetings'],
  ...['system_prompt', 'post_history_instructions', 'character_book', 'tags', 'creator', 'character_version'],
  ...['creator_notes', 'creator_notes_multilingual', 'source', 'creation_date', 'modification_date', 'extensions'],
])
const knownExtensions = new Set(['depth_prompt', 'conservatory'])
const newestVersion = 3

/** The most items of one list in a summary. */
const maxListed = 20
/** Units of work to check one field or asset. */
const unitsOfField = 20

/** Summarizes a card, and names the fields that the service ignores. @param notes from `readCard` of this card */
export function describeCard(
  card: Card,
  { document, warnings }: Pick<CardSource, 'document' | 'warnings'>,
  notes: ReadingNotes,
) {
  const { spec, data } = cardData(document)
  const neverFired: string[] = []
  if (card.book) neverFiring(fieldsIn(data, 'character_book'), card.book, (entry) => neverFired.push(entry))
  const assets = listIn(data, 'assets')
  spend((notes.ignored.size + notes.patterns.refused.length + assets.length) * unitsOfField)
  return {
    spec,
    greetings: card.greetings.filter((greeting) => greeting.trim() !== '').length,
    lore_entries: card.book?.written ?? 0,
    regexes: notes.patterns.compiled,
    refused_regexes: cappedList(notes.patterns.refused),
    remote_assets: assets.filter((asset) => isFields(asset) && /^https?:/i.test(uriOf(asset))).length,
    has_system_prompt: card.systemPrompt.trim() !== '',
    model: card.model ?? null,
    ignored: cappedList(ignoredFields(document, data, notes)),
    never_fire: cappedList(neverFired),
    warnings: cappedList([...warnings, ...misreadOf(document)]),
  }
}

/** The paths of the fields that the service ignores. */
function* ignoredFields(document: Fields, data: Fields, notes: ReadingNotes): Iterable<string> {
  for (const name of unreadIn(fieldsIn(data, 'extensions'), knownExtensions)) yield `extensions.${name}`
  yield* unreadIn(data, known)
  yield* notes.ignored
  const version = numberIn(document, 'spec_version') ?? 0
  if (version > newestVersion) yield `spec_version ${String(valueIn(document, 'spec_version')).slice(0, 20)}`
}

/** The names of fields that are not in `read`, except empty fields. */
function* unreadIn(fields: Fields, read: ReadonlySet<string>): Iterable<string> {
  for (const name of Object.keys(fields)) {
    spend(unitsOfField)
    if (!read.has(name) && !isEmptyValue(fields[name])) yield name.slice(0, 100)
  }
}

/** The first names of a list. If names are left out, one more item says how many. */
export function cappedList(names: Iterable<string>): readonly string[] {
  const first: string[] = []
  let more = 0
  for (const name of names) {
    if (first.length < maxListed) first.push(name)
    else more++
  }
  return more === 0 ? first : [...first, `and ${more} more`]
}
