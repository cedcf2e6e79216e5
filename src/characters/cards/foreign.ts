import { type Fields, isFields, valueIn } from '../../fields.ts'
import { type ForeignFormat, type FormatRule, foreignBook } from '../lore/foreign-book.ts'

/*
 * Formats of other programs that people take for character cards. They are told by the fields that only
 * they have, so that the reply can name them.
 */

const is = (name: string, value: string) => (document: Fields) => valueIn(document, name) === value
const has = (document: Fields, ...names: readonly string[]) => names.every((name) => Object.hasOwn(document, name))

const asCard = (program: string) => `Export it from ${program} as Character Card V2 or V3.`

/** The formats of characters, and of what holds one. */
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

/** The character format of another program that a document is in; undefined where it is in none that is known. */
export function foreignCharacter(document: Fields): ForeignFormat | undefined {
  // Cards of V2 and V3 may have such fields of other programs at their root.
  if (isFields(valueIn(document, 'data'))) return undefined
  return characters.find(({ fits }) => fits(document))
}

/** Why a document that is no card is none, in the words of what it is. */
export function whyNoCard(document: Fields): string {
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
