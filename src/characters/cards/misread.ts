import { type Fields, fieldsIn, isFields, textIn, valueIn } from '../../fields.ts'
import { spend } from '../../work/fuel.ts'
import { isDisabled, isEmptyValue } from '../lore/entry.ts'
import { foreignBook } from '../lore/foreign-book.ts'
import { writtenEntries } from '../lore/never-fires.ts'
import { maxModelLength } from './card.ts'
import { type CardSpec, cardData, foreignCharacter } from './versions.ts'

/*
 * Warnings about fields of a card that are not read, or are read in another way than the author may expect. The card is accepted
 * nevertheless. Each warning is a sentence that says what to change.
 */

/** Fields whose value is a text in each version that has them. */
const texts = [
  ...['name', 'nickname', 'description', 'personality', 'scenario', 'first_mes', 'mes_example'],
  ...['creator_notes', 'system_prompt', 'post_history_instructions', 'creator'],
]
/** Fields whose value is a list of texts, and how a single text in place of the list is handled. */
const lists = [
  ['alternate_greetings', 'taken as a single greeting'],
  ['group_only_greetings', 'not used'],
  ['tags', 'split at its commas'],
  ['source', 'not used'],
] as const
/** Fields of V2 and V3 that V1 does not have. */
const laterFields = [
  ...['system_prompt', 'post_history_instructions', 'alternate_greetings', 'character_book', 'nickname'],
  ...['group_only_greetings', 'extensions'],
]
/** Units of work to check one entry. */
const unitsOfEntry = 20

/** Warnings about the fields of a card that may not be read as the author expects. */
export function* misreadOf(document: Fields): Iterable<string> {
  const { spec, data } = cardData(document)
  const foreign = foreignCharacter(document)
  if (foreign) yield `This is ${foreign.what}: only the fields that it shares with V1 are read. ${foreign.advice}`
  yield* misreadTypes(spec === 'v1' ? document : data)
  const model = valueIn(fieldsIn(fieldsIn(data, 'extensions'), 'conservatory'), 'model')
  if (model != null && !(typeof model === 'string' && model.trim().length <= maxModelLength)) {
    yield `extensions.conservatory.model is not a model id and is not read. Write a text of at most ${maxModelLength} characters.`
  }
  yield* misreadRoot(document, spec)
  const book = valueIn(data, 'character_book')
  if (isFields(book)) yield* misreadBook(book, 'character_book')
  else if (Array.isArray(book) && book.length > 0) {
    yield 'character_book is a list and is not read. Write an object with that list as its entries.'
  } else if (!isEmptyValue(book)) {
    yield 'character_book is not an object and is not read. Write an object with a list of entries.'
  }
}

/** Warnings about the fields of a lorebook. @param path the name of the book in the warnings */
export function* misreadBook(book: Fields, path: string): Iterable<string> {
  const foreign = foreignBook(book)
  if (foreign) yield `${path} is ${foreign.what}: its entries are not read. ${foreign.advice}`
  const counts = new Map<string, number>()
  for (const entry of writtenEntries(book)) {
    spend(unitsOfEntry)
    if (!isFields(entry)) continue
    for (const fault of faultsOfEntry(entry)) counts.set(fault, (counts.get(fault) ?? 0) + 1)
  }
  const entries = valueIn(book, 'entries')
  if (isFields(entries)) {
    if (counts.has(worldNaming)) {
      yield `${path}.entries is an object in the naming of SillyTavern's world info. ${asCardBook}`
    }
  } else if (entries !== undefined && !Array.isArray(entries)) {
    yield `${path}.entries is not a list and is not read. Write a list of entries.`
  }
  for (const [fault, number] of counts) yield `${path}.entries: ${fault} (entries: ${number})`
}

const asCardBook =
  'Import it into SillyTavern with the character, and export the character as a card; or put it into the folder lorebooks/ of the service.'
const worldNaming = '`key` is not read in a card. Name it `keys`.'

/** Fields of an entry whose value is a list of texts, and fields whose value is a boolean. */
const textsOfEntry = ['keys', 'secondary_keys']
const switchesOfEntry = ['enabled', 'constant', 'selective', 'case_sensitive', 'use_regex']

/** The faults of one entry. */
function* faultsOfEntry(entry: Fields): Iterable<string> {
  if (!Object.hasOwn(entry, 'keys') && Object.hasOwn(entry, 'key')) yield worldNaming
  if (Object.hasOwn(entry, 'keysecondary') && !Object.hasOwn(entry, 'secondary_keys')) {
    yield '`keysecondary` is not read in a card. Name it `secondary_keys`.'
  }
  if (textIn(entry, 'keys').includes(',')) {
    yield '`keys` is a text and is read as one key with its commas. Write a list.'
  }
  if (!isEmptyValue(entry['content']) && typeof entry['content'] !== 'string') {
    yield '`content` is not a text and is not read. Write a text.'
  }
  yield* misreadTypesOfEntry(entry)
}

function* misreadTypesOfEntry(entry: Fields): Iterable<string> {
  for (const name of textsOfEntry) {
    if (hasOther(valueIn(entry, name)))
      yield `\`${name}\` has values that are not texts; they are not read. Write only texts.`
  }
  for (const name of switchesOfEntry) {
    const value = valueIn(entry, name)
    if (value == null || typeof value === 'boolean') continue
    const isOn = name === 'enabled' ? !isDisabled(entry) : name === 'use_regex'
    yield `\`${name}\` is neither true nor false, and is read as ${isOn}. Write true or false.`
  }
}

/** Whether a list has an item that is not a text. */
function hasOther(value: unknown): boolean {
  return Array.isArray(value) && value.some((each) => typeof each !== 'string')
}

function* misreadTypes(data: Fields): Iterable<string> {
  for (const name of texts) {
    const value = valueIn(data, name)
    if (value != null && typeof value !== 'string') yield `${name} is not a text and is not read. Write a text.`
  }
  for (const [name, what] of lists) {
    const value = valueIn(data, name)
    if (isEmptyValue(value)) continue
    if (typeof value === 'string') yield `${name} is a text and is ${what}. Write a list of texts.`
    else if (hasOther(value)) yield `${name} has values that are not texts; they are not read. Write only texts.`
    else if (!Array.isArray(value)) yield `${name} is not a list and is not read. Write a list of texts.`
  }
  const extensions = valueIn(data, 'extensions')
  if (extensions != null && !isFields(extensions)) yield 'extensions is not an object and is not read. Write an object.'
}

/** Warnings about fields at the root of the document that are only read in `data`. */
function* misreadRoot(document: Fields, spec: CardSpec): Iterable<string> {
  if (spec === 'v1') {
    const found = laterFields.filter((name) => !isEmptyValue(valueIn(document, name)))
    if (found.length === 0) return
    yield `The card is of V1, which has no ${found.join(', ')}: they are not read. Put all fields into data, beside "spec": "chara_card_v2".`
    return
  }
  if (!isEmptyValue(valueIn(fieldsIn(document, 'data'), 'character_book'))) return
  for (const name of ['character_book', 'lorebook', 'entries']) {
    if (isEmptyValue(valueIn(document, name))) continue
    yield `${name} stands at the root of the card, and is not read there. Put it into data as character_book.`
  }
}
