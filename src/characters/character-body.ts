import { avatarProblem } from './cards/avatar.ts'
import { readCard } from './cards/card.ts'
import { describeCard } from './cards/description.ts'
import type { OnMemory } from './cards/inflate.ts'
import type { CardSource } from './cards/source.ts'
import { aboutCard, creatorNotes, hiddenFields, versionOf } from './cards/summary.ts'
import type { Character, StoredCharacter } from './library/character.ts'
import { emptyNotes } from './lore/lorebook.ts'
import { maxExpandedLength, tooLarge } from './macros/macros.ts'
import { shownGreetings } from './prompt/greetings.ts'
import { listBody } from './schemas.ts'

/** The properties of a request that decide what the reply shows of a character. */
export interface Viewer {
  /** Whether the caller may read the whole card. */
  readonly isReadable: boolean
  /** Language codes of two or three letters, such as `en`, in the order of preference. */
  readonly languages: readonly string[]
  /** The caller's own upload of this name; undefined for none. */
  readonly stored: StoredCharacter | undefined
  /** The id of the conversation in which the greetings will be used; undefined for none. */
  readonly conversationId: string | undefined
  /** The user's name in the greetings. */
  readonly userName: string
}

/**
 * The body for a character. It contains the hidden fields of the card only if the viewer may read the card.
 * @param onMemory called before the picture is unpacked
 */
export function* publicBody(character: Character, source: CardSource, viewer: Viewer, onMemory: OnMemory) {
  const { document } = source
  const { name, origin, digest, card } = character
  const notes = emptyNotes()
  yield* readCard(document, notes)
  const summary = yield* describeCard(card, source, notes)
  const { refused_regexes, ignored, never_fire, warnings, greetings: _count, ...description } = summary
  const { isReadable, languages, stored, conversationId, userName } = viewer
  const noted = stored?.digest === digest ? stored.about.avatar : undefined
  const avatar = noted ?? (yield* avatarProblem(source, onMemory)).has
  const times = origin === 'account' && stored ? { created: stored.created, updated: stored.updated } : {}
  const greetings = yield* greetingsOf({ name, digest, card, userName }, conversationId)
  return {
    ...listBody({ name, origin, digest, about: { ...aboutCard(document), avatar }, ...times }),
    ...description,
    creator_notes: creatorNotes(document, languages),
    character_version: versionOf(document),
    greetings,
    ...(isReadable ? { refused_regexes, ignored, never_fire, warnings, card: hiddenFields(document) } : {}),
  }
}

/** The greetings with their macros expanded. @throws ApiError 400 `card_too_large` if all greetings together are too long */
function* greetingsOf(persona: Parameters<typeof shownGreetings>[0], conversationId: string | undefined) {
  const greetings: { index: number; text: string }[] = []
  let length = 0
  yield* shownGreetings(persona, conversationId, (index, text) => {
    length += text.length
    if (length > maxExpandedLength) throw tooLarge()
    greetings.push({ index, text })
  })
  return greetings
}

/** The languages of an `Accept-Language` header (RFC 9110, section 12.5.4), without regions, the preferred one first. */
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
