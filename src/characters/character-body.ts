import { describeCard } from './cards/description.ts'
import { aboutCard, creatorNotes, hiddenFields, versionOf } from './cards/summary.ts'
import type { Character, StoredCharacter } from './library/character.ts'
import { expandMacros } from './macros/macros.ts'
import { listBody } from './schemas.ts'

/** Who looks at a character, as far as it matters. */
export interface Viewer {
  readonly isReadable: boolean
  /** In the order of preference, as ISO 639-1 codes. */
  readonly languages: readonly string[]
  /** What is kept of it, when it is the caller's own. */
  readonly stored: StoredCharacter | undefined
}

/** A character as its reader may see it: how to play it, and what gives its story away, only where it is readable. */
export function publicBody(character: Character, document: Readonly<Record<string, unknown>>, viewer: Viewer) {
  const { name, origin, digest, card } = character
  const { refused_regexes, ignored, greetings: _count, ...description } = describeCard(card, document)
  const { isReadable, languages, stored } = viewer
  const names = { character: card.nickname || card.name || name, user: 'User' }
  const times = origin === 'account' && stored ? { created: stored.created, updated: stored.updated } : {}
  return {
    ...listBody({ name, origin, digest, about: aboutCard(document), ...times }),
    ...description,
    creator_notes: creatorNotes(document, languages),
    character_version: versionOf(document),
    greetings: card.greetings.map((text, index) => ({ index, text: expandMacros(text, names) })),
    ...(isReadable ? { refused_regexes, ignored, card: hiddenFields(document) } : {}),
  }
}

/** The languages of an `Accept-Language` header (RFC 9110, section 12.5.4), the best first. */
export function languagesOf(header: string | undefined): readonly string[] {
  return (header ?? '')
    .split(',')
    .map((range) => {
      const [tag = '', ...parameters] = range.split(';').map((part) => part.trim())
      const weight = parameters.find((parameter) => /^q=/i.test(parameter))
      return {
        language: tag.split('-', 1)[0]?.toLowerCase() ?? '',
        weight: weight === undefined ? 1 : Number(weight.slice(2)),
      }
    })
    .filter(({ language, weight }) => /^[a-z]{2,3}$/.test(language) && weight > 0)
    .sort((a, b) => b.weight - a.weight)
    .map(({ language }) => language)
}
