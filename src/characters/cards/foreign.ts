import { type Fields, isFields, valueIn } from '../../fields.ts'
import { type ForeignFormat, type FormatRule, foreignBook } from '../lore/foreign-book.ts'

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
export function notACardMessage(document: Fields): string {
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
