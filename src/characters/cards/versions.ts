import { type Fields, isFields, valueIn } from '../../fields.ts'
import { CardError } from '../documents/card-error.ts'
import { type ForeignFormat, type FormatRule, foreignBook } from '../lore/foreign-book.ts'

/** The specification of a card. An `other` card has its fields in `data`, but no known `spec`. It is read as V3. */
export type CardVersion = 'v1' | 'v2' | 'v3' | 'other'

/** The specification of a card as replies show it. */
export type CardSpec = 'v1' | 'chara_card_v2' | 'chara_card_v3'

/** The required values of `spec` and `spec_version` (V2, "spec" and "spec_version"; V3, "CharacterCard Object"). */
export const specs = {
  v2: { spec: 'chara_card_v2', spec_version: '2.0' },
  v3: { spec: 'chara_card_v3', spec_version: '3.0' },
} as const

/** Pygmalion's names of the fields of V1. */
export const pygmalionNames = {
  name: 'char_name',
  description: 'char_persona',
  scenario: 'world_scenario',
  first_mes: 'char_greeting',
  mes_example: 'example_dialogue',
} as const

/** The object that holds a card's fields: `data` of V2 and V3, the root of V1. */
export function dataOf(document: Fields): Fields {
  const data = valueIn(document, 'data')
  return isFields(data) ? data : document
}

/** V1's own names of its fields. A card of V1 has one of them besides `name`: a lorebook has a name too. */
const namesOfV1 = Object.fromEntries(
  ['name', 'description', 'personality', 'scenario', 'first_mes', 'mes_example'].map((name) => [name, name]),
)

/** The version of a card, by its fields; undefined for other documents, such as lorebooks. */
export function cardVersion(document: Fields): CardVersion | undefined {
  const spec = valueIn(document, 'spec')
  const data = valueIn(document, 'data')
  if (spec === 'lorebook_v3') return undefined
  if (isFields(data)) {
    if (spec === specs.v3.spec) return 'v3'
    if (spec === specs.v2.spec) return 'v2'
    if (typeof valueIn(data, 'name') === 'string') return 'other'
  }
  return namesIn(document) && 'v1'
}

/** The names of the fields of a V1 card; undefined for other documents. */
function namesIn(document: Fields): Readonly<Record<string, string>> | undefined {
  const isText = (name: string) => typeof valueIn(document, name) === 'string'
  if (isText('name') && Object.keys(namesOfV1).some((name) => name !== 'name' && isText(name))) return namesOfV1
  return isText(pygmalionNames.name) ? pygmalionNames : undefined
}

/** The specification of a card, and the object with its fields. @throws CardError if the document is not a card */
export function cardData(document: Fields): { readonly spec: CardSpec; readonly data: Fields } {
  const version = cardVersion(document)
  if (version === undefined) throw new CardError('card_invalid', notACardMessage(document))
  if (version !== 'v1') return { spec: specs[version === 'v2' ? 'v2' : 'v3'].spec, data: dataOf(document) }
  // Other fields at the root belong to other programs.
  const names = Object.entries(namesIn(document) ?? namesOfV1)
  return { spec: 'v1', data: Object.fromEntries(names.map(([ours, theirs]) => [ours, valueIn(document, theirs)])) }
}

/** The most characters of `spec_version` that are read: reading 16 million digits takes 60 ms. */
const maxVersionLength = 100

/** Warnings about a card's version, one sentence each. */
export function versionWarnings(document: Fields): readonly string[] {
  const written = valueIn(document, 'spec_version')
  const isWritten = typeof written === 'string' || typeof written === 'number'
  const version = isWritten ? Number.parseFloat(String(written).slice(0, maxVersionLength)) : 0
  return [
    ...(version > 3 ? ['The card follows a later specification than 3.0; its new fields are kept, but not used.'] : []),
    ...(cardVersion(document) === 'other' ? ['The card names no known specification; it was read as V3.'] : []),
  ]
}

/*
 * Formats of other programs that users mistake for character cards. Each format is recognized by fields that only it has, so that
 * the reply can name the format.
 */

const is = (name: string, value: string) => (document: Fields) => valueIn(document, name) === value
const has = (document: Fields, ...names: readonly string[]) => names.every((name) => Object.hasOwn(document, name))

const asCard = (program: string) => `Export it from ${program} as Character Card V2 or V3.`

/** Formats of characters, and of files that contain a character. */
const characters: readonly FormatRule[] = [
  {
    what: "a character in Agnai's own format",
    advice: asCard('Agnai'),
    fits: (document) => is('kind', 'character')(document) || has(document, 'persona', 'greeting', 'sampleChat'),
  },
  {
    what: "a character in RisuAI's own format",
    advice: asCard('RisuAI'),
    fits: (document) => has(document, 'firstMessage', 'desc') || has(document, 'firstMessage', 'globalLore'),
  },
  { what: 'a RisuAI module', advice: 'Export the character itself as a card.', fits: is('type', 'risuModule') },
  {
    what: "a character in Voxta's own format",
    advice: asCard('Voxta'),
    fits: is('$type', 'character'),
  },
  { what: 'the description of a Voxta package or scenario', advice: asCard('Voxta'), fits: isVoxtaPackage },
  {
    what: 'a NovelAI story or scenario',
    advice: 'NovelAI has no character cards: write its texts into one.',
    fits: (document) => has(document, 'scenarioVersion') || has(document, 'storyContainerVersion'),
  },
]

/** The format of another program in which a document describes a character; undefined if no known format fits. */
export function foreignCharacter(document: Fields): ForeignFormat | undefined {
  // A card of V2 or V3 may also have such fields at its root, if another program added them.
  if (isFields(valueIn(document, 'data'))) return undefined
  return characters.find(({ fits }) => fits(document))
}

/** A message for a document that is not a card. It names the format if the format is known, and says what to do. */
function notACardMessage(document: Fields): string {
  const foreign = foreignCharacter(document) ?? foreignBook(document)
  if (foreign) return `This is ${foreign.what}, and not a character card. ${foreign.advice}`
  if (valueIn(document, 'spec') === 'lorebook_v3' || Object.hasOwn(document, 'entries')) {
    return 'This is a lorebook, and not a character card. Put it into the card as data.character_book, or into the folder lorebooks/ of the service.'
  }
  return 'This is JSON, but not a character card. Send a card of V1, V2 or V3.'
}

function isVoxtaPackage(document: Fields): boolean {
  const type = valueIn(document, '$type')
  return type === 'package' || type === 'scenario'
}
