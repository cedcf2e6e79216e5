import { type Fields, fieldsIn, isFields, listIn, numberIn, valueIn } from '../../fields.ts'
import { spend } from '../../work/fuel.ts'
import { isEmptyValue, type ReadingNotes } from '../lore/entry.ts'
import { neverFiring } from '../lore/never-fires.ts'
import { uriOf } from './assets.ts'
import { type Card, type CardSpec, cardData } from './card.ts'
import { misreadOf } from './misread.ts'
import type { CardSource } from './source.ts'

/** The summary of a card in the reply to an upload, which also has the name and the digest. */
export interface CardSummary {
  readonly spec: CardSpec
  readonly greetings: number
  readonly lore_entries: number
  readonly regexes: number
  /** Patterns that the engine refuses; they match nothing. */
  readonly refused_regexes: readonly string[]
  readonly remote_assets: number
  readonly has_system_prompt: boolean
  /** The model that the card asks for; null for none. */
  readonly model: string | null
  /** Paths of the fields that this service ignores. */
  readonly ignored: readonly string[]
  /** Lorebook entries that are enabled and can never be in a prompt, each with the reason. */
  readonly never_fire: readonly string[]
  /** Faults of the file that were tolerated, and fields that may not be read as the author expects: one sentence each. */
  readonly warnings: readonly string[]
}

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
): CardSummary {
  const { spec, data } = cardData(document)
  const ignored = new CappedList()
  reportUnread(fieldsIn(data, 'extensions'), knownExtensions, (name) => ignored.add(`extensions.${name}`))
  reportUnread(data, known, (name) => ignored.add(name))
  for (const name of notes.ignored) ignored.add(name)
  const version = numberIn(document, 'spec_version') ?? 0
  if (version > newestVersion) ignored.add(`spec_version ${String(valueIn(document, 'spec_version')).slice(0, 20)}`)
  const neverFired = new CappedList()
  if (card.book) neverFiring(fieldsIn(data, 'character_book'), card.book, (entry) => neverFired.add(entry))
  const warningList = new CappedList()
  for (const warning of warnings) warningList.add(warning)
  misreadOf(document, (sentence) => warningList.add(sentence))
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
    ignored: ignored.list,
    never_fire: neverFired.list,
    warnings: warningList.list,
  }
}

/** Reports the names of fields that are not in `read`, except empty fields. */
function reportUnread(fields: Fields, read: ReadonlySet<string>, report: (name: string) => void): void {
  for (const name of Object.keys(fields)) {
    spend(unitsOfField)
    if (!read.has(name) && !isEmptyValue(fields[name])) report(name.slice(0, 100))
  }
}

/** The first names of a list. If names are left out, one more item says how many. */
export function cappedList(names: readonly string[]): readonly string[] {
  const capped = new CappedList()
  for (const name of names) capped.add(name)
  return capped.list
}

/** A list of at most `maxListed` items. If items are left out, one more item says how many. */
export class CappedList {
  readonly #names: string[] = []
  #more = 0

  add(name: string): void {
    if (this.#names.length < maxListed) this.#names.push(name)
    else this.#more += 1
  }

  get list(): readonly string[] {
    return this.#more === 0 ? this.#names : [...this.#names, `and ${this.#more} more`]
  }
}
