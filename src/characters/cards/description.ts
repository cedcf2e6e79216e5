import { type Fields, fieldsIn, isFields, listIn, numberIn, textIn, valueIn } from '../../fields.ts'
import type { Steps } from '../../work.ts'
import { isEmptyValue, type ReadingNotes } from '../lore/entry.ts'
import { neverFiring } from '../lore/never-fires.ts'
import { type Card, type CardSpec, cardData } from './card.ts'
import { misreadOf } from './misread.ts'
import type { CardSource } from './source.ts'

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
  /** The model that the card asks for; null where it asks for none. */
  readonly model: string | null
  /** Where the card says what this service makes nothing of. */
  readonly ignored: readonly string[]
  /** Lore that is switched on and can never be in a prompt, each with the reason. */
  readonly never_fire: readonly string[]
  /** What was not understood, or read otherwise than it may be meant: a sentence each. */
  readonly warnings: readonly string[]
}

/** Fields of `data` that are read, or that are for people and for export. */
const known = new Set([
  ...['name', 'nickname', 'description', 'personality', 'scenario', 'first_mes', 'mes_example', 'alternate_greetings'],
  ...['system_prompt', 'post_history_instructions', 'character_book', 'tags', 'creator', 'character_version'],
  ...['creator_notes', 'creator_notes_multilingual', 'source', 'creation_date', 'modification_date', 'extensions'],
])
const knownExtensions = new Set(['depth_prompt', 'conservatory'])
const newestVersion = 3

/** Names and patterns of one kind that are told; behind them stands how many more there are. */
const maxListed = 20
/** Units of work of looking at one field or asset. */
const unitsOfField = 20

/** Tells what is in a card, and what of it the service would pass over. @param notes of the reading of the card */
export function* describeCard(
  card: Card,
  { document, warnings }: Pick<CardSource, 'document' | 'warnings'>,
  notes: ReadingNotes,
): Steps<CardSummary> {
  const { spec, data } = cardData(document)
  const ignored = new Told()
  yield* reportUnread(fieldsIn(data, 'extensions'), knownExtensions, (name) => ignored.report(`extensions.${name}`))
  yield* reportUnread(data, known, (name) => ignored.report(name))
  for (const name of notes.ignored) ignored.report(name)
  const version = numberIn(document, 'spec_version') ?? 0
  if (version > newestVersion) ignored.report(`spec_version ${String(valueIn(document, 'spec_version')).slice(0, 20)}`)
  const unfired = new Told()
  if (card.book) yield* neverFiring(fieldsIn(data, 'character_book'), card.book, (entry) => unfired.report(entry))
  const told = new Told()
  for (const warning of warnings) told.report(warning)
  yield* misreadOf(document, (sentence) => told.report(sentence))
  const assets = listIn(data, 'assets')
  yield (notes.ignored.size + notes.patterns.refused.length + assets.length) * unitsOfField
  return {
    spec,
    greetings: card.greetings.filter((greeting) => greeting.trim() !== '').length,
    lore_entries: card.book?.written ?? 0,
    regexes: notes.patterns.compiled,
    refused_regexes: toldList(notes.patterns.refused),
    remote_assets: assets.filter((asset) => isFields(asset) && /^https?:/i.test(textIn(asset, 'uri').trim())).length,
    has_system_prompt: card.systemPrompt.trim() !== '',
    model: card.model ?? null,
    ignored: ignored.list,
    never_fire: unfired.list,
    warnings: told.list,
  }
}

/** Tells of the fields that are not read, unless nothing is lost by that. */
function* reportUnread(fields: Fields, read: ReadonlySet<string>, report: (name: string) => void): Steps<void> {
  let looked = 0
  for (const name of Object.keys(fields)) {
    looked += 1
    if (looked % 500 === 0) yield 500 * unitsOfField
    if (!read.has(name) && !isEmptyValue(fields[name])) report(name.slice(0, 100))
  }
  yield (looked % 500) * unitsOfField
}

/** As much of a list as is told. */
export function toldList(names: readonly string[]): readonly string[] {
  const told = new Told()
  for (const name of names) told.report(name)
  return told.list
}

/** A list that is told only so far, however long it is. */
export class Told {
  readonly #names: string[] = []
  #more = 0

  report(name: string): void {
    if (this.#names.length < maxListed) this.#names.push(name)
    else this.#more += 1
  }

  get list(): readonly string[] {
    return this.#more === 0 ? this.#names : [...this.#names, `and ${this.#more} more`]
  }
}
