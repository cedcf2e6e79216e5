import { type Fields, isFields, valueIn } from '../../../src/fields.ts'
import { laterFields } from '../cards.ts'
import type { Format } from './readers.ts'

/*
 * The expected fields of a card in another format. They are derived from the source card and the specifications, without the
 * code of the service's conversion.
 */

const fieldsOfV1 = ['name', 'description', 'personality', 'scenario', 'first_mes', 'mes_example']
const fieldsOfV2 = [
  ...fieldsOfV1,
  ...['creator_notes', 'system_prompt', 'post_history_instructions', 'alternate_greetings', 'tags', 'creator'],
  'character_version',
]
const fieldsOfV3 = [
  ...fieldsOfV2,
  ...['nickname', 'creator_notes_multilingual', 'source', 'group_only_greetings', 'creation_date', 'modification_date'],
]
const fieldsOfBook = ['name', 'description', 'scan_depth', 'token_budget', 'recursive_scanning', 'extensions']
const fieldsOfEntry = [
  ...['keys', 'extensions', 'enabled', 'insertion_order', 'case_sensitive', 'name', 'priority', 'id', 'comment'],
  ...['selective', 'secondary_keys', 'constant', 'position'],
]
/** Empty values of required fields, for cards without these fields. */
const empty: Fields = laterFields

/** The compared parts of a card: its fields, its extensions without the service's own, and its lore. */
export interface View {
  readonly fields: Fields
  readonly extensions: unknown
  readonly book: Fields | undefined
  readonly entries: readonly Fields[]
}

/** The fields of a card's data that are compared in a format. */
export function viewOf(data: Fields, format: Format): View {
  const isV2 = format === 'v2'
  const book = valueIn(data, 'character_book')
  const entries = isFields(book) ? valueIn(book, 'entries') : undefined
  const extensions = valueIn(data, 'extensions')
  return {
    fields: only(data, isV2 ? fieldsOfV2 : fieldsOfV3),
    extensions: isFields(extensions) ? without(extensions, 'conservatory') : extensions,
    book: isFields(book) ? only(book, fieldsOfBook) : undefined,
    entries: Array.isArray(entries) ? entries.filter(isFields).map((entry) => entryView(entry, isV2)) : [],
  }
}

function entryView(entry: Fields, isV2: boolean): Fields {
  return { ...only(entry, [...fieldsOfEntry, 'content', ...(isV2 ? [] : ['use_regex'])]) }
}

/** The fields that a reader must find in the export of this card. */
export function expectedView(card: Fields, format: Format): View {
  const data = valueIn(card, 'data') ?? card
  if (!isFields(data)) throw new Error('the card has no data')
  const group = format === 'v2' ? {} : { group_only_greetings: [] }
  const view = viewOf({ ...empty, ...group, extensions: {}, ...data }, format)
  return {
    ...view,
    book: view.book && { extensions: {}, ...view.book },
    entries: view.entries.map((entry) => expectedEntry(entry, format)),
  }
}

/** V2 has no decorators. V3 requires `use_regex`, which is true if a key is between slashes. */
function expectedEntry(entry: Fields, format: Format): Fields {
  const text = String(valueIn(entry, 'content'))
  if (format === 'v2') return { extensions: {}, ...entry, content: text.replace(/^(?:@@.*\n)+/, '') }
  const keys = valueIn(entry, 'keys')
  const hasPattern = Array.isArray(keys) && keys.some((key) => /^\/.*\/$/.test(String(key)))
  return { use_regex: hasPattern, extensions: {}, ...entry }
}

function only(from: Fields, names: readonly string[]): Fields {
  return Object.fromEntries(names.flatMap((name) => (Object.hasOwn(from, name) ? [[name, valueIn(from, name)]] : [])))
}

function without(from: Fields, name: string): Fields {
  return Object.fromEntries(Object.entries(from).filter(([each]) => each !== name))
}
