import { type Fields, fieldsIn, isFields, textIn, valueIn } from '../../fields.ts'
import { spend } from '../../work/fuel.ts'
import { isDisabled, isEmptyValue } from '../lore/entry.ts'
import { foreignBook } from '../lore/foreign-book.ts'
import { writtenEntries } from '../lore/never-fires.ts'
import { type CardSpec, cardData, maxModelLength } from './card.ts'
import { foreignCharacter } from './foreign.ts'

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

/** Reports the fields of a card that may not be read as the author expects. @param report called with each warning, a sentence */
export function misreadOf(document: Fields, report: (sentence: string) => void): void {
  const { spec, data } = cardData(document)
  const foreign = foreignCharacter(document)
  if (foreign) report(`This is ${foreign.what}: only the fields that it shares with V1 are read. ${foreign.advice}`)
  reportTypes(spec === 'v1' ? document : data, report)
  reportModel(data, report)
  reportRoot(document, spec, report)
  const book = valueIn(data, 'character_book')
  if (isFields(book)) reportBook(book, 'character_book', report)
  else if (!isEmptyValue(book)) report(notABook(book))
}

/**
 * Reports the fields of a lorebook that may not be read as the author expects.
 * @param path the name of the book in the warnings
 */
export function reportBook(book: Fields, path: string, report: (sentence: string) => void): void {
  const foreign = foreignBook(book)
  if (foreign) report(`${path} is ${foreign.what}: its entries are not read. ${foreign.advice}`)
  const counts = new Map<string, number>()
  const count = (fault: string) => counts.set(fault, (counts.get(fault) ?? 0) + 1)
  const entries = writtenEntries(book)
  for (const entry of entries) {
    spend(unitsOfEntry)
    if (isFields(entry)) for (const fault of faultsOfEntry(entry)) count(fault)
  }
  if (isFields(valueIn(book, 'entries')) && counts.has(worldNaming)) {
    report(`${path}.entries is an object in the naming of SillyTavern's world info. ${asCardBook}`)
  } else if (
    valueIn(book, 'entries') !== undefined &&
    !isFields(valueIn(book, 'entries')) &&
    !Array.isArray(valueIn(book, 'entries'))
  ) {
    report(`${path}.entries is not a list and is not read. Write a list of entries.`)
  }
  for (const [fault, number] of counts) report(`${path}.entries: ${fault} (entries: ${number})`)
}

const asCardBook =
  'Import it into SillyTavern with the character, and export the character as a card; or put it into the folder lorebooks/ of the service.'
const worldNaming = '`key` is not read in a card. Name it `keys`.'

/** The faults of one entry. */
function faultsOfEntry(entry: Fields): readonly string[] {
  const faults: string[] = []
  if (!Object.hasOwn(entry, 'keys') && Object.hasOwn(entry, 'key')) faults.push(worldNaming)
  if (Object.hasOwn(entry, 'keysecondary') && !Object.hasOwn(entry, 'secondary_keys')) {
    faults.push('`keysecondary` is not read in a card. Name it `secondary_keys`.')
  }
  if (textIn(entry, 'keys').includes(','))
    faults.push('`keys` is a text and is read as one key with its commas. Write a list.')
  if (!isEmptyValue(entry['content']) && typeof entry['content'] !== 'string') {
    faults.push('`content` is not a text and is not read. Write a text.')
  }
  return [...faults, ...typesOfEntry(entry)]
}

/** Fields of an entry whose value is a list of texts, and fields whose value is a boolean. */
const textsOfEntry = ['keys', 'secondary_keys']
const switchesOfEntry = ['enabled', 'constant', 'selective', 'case_sensitive', 'use_regex']

function* typesOfEntry(entry: Fields): Iterable<string> {
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

function reportTypes(data: Fields, report: (sentence: string) => void): void {
  for (const name of texts) {
    const value = valueIn(data, name)
    if (value != null && typeof value !== 'string') report(`${name} is not a text and is not read. Write a text.`)
  }
  for (const [name, what] of lists) {
    const fault = faultOfList(valueIn(data, name), what)
    if (fault) report(`${name} ${fault}`)
  }
  const extensions = valueIn(data, 'extensions')
  if (extensions != null && !isFields(extensions))
    report('extensions is not an object and is not read. Write an object.')
}

/** The fault of a value that should be a list of texts. @param what how a single text in place of the list is handled */
function faultOfList(value: unknown, what: string): string | undefined {
  if (isEmptyValue(value)) return undefined
  if (typeof value === 'string') return `is a text and is ${what}. Write a list of texts.`
  if (hasOther(value)) return 'has values that are not texts; they are not read. Write only texts.'
  return Array.isArray(value) ? undefined : 'is not a list and is not read. Write a list of texts.'
}

function reportModel(data: Fields, report: (sentence: string) => void): void {
  const model = valueIn(fieldsIn(fieldsIn(data, 'extensions'), 'conservatory'), 'model')
  if (model == null || (typeof model === 'string' && model.trim().length <= maxModelLength)) return
  const wanted = `Write a text of at most ${maxModelLength} characters.`
  report(`extensions.conservatory.model is not a model id and is not read. ${wanted}`)
}

/** Reports fields at the root of the document that are only read in `data`. */
function reportRoot(document: Fields, spec: CardSpec, report: (sentence: string) => void): void {
  if (spec === 'v1') {
    const found = laterFields.filter((name) => !isEmptyValue(valueIn(document, name)))
    if (found.length === 0) return
    report(
      `The card is of V1, which has no ${found.join(', ')}: they are not read. Put all fields into data, beside "spec": "chara_card_v2".`,
    )
    return
  }
  for (const name of ['character_book', 'lorebook', 'entries']) {
    if (isEmptyValue(valueIn(document, name)) || !isEmptyValue(valueIn(fieldsIn(document, 'data'), 'character_book')))
      continue
    report(`${name} stands at the root of the card, and is not read there. Put it into data as character_book.`)
  }
}

function notABook(book: unknown): string {
  if (Array.isArray(book))
    return 'character_book is a list and is not read. Write an object with that list as its entries.'
  return 'character_book is not an object and is not read. Write an object with a list of entries.'
}
