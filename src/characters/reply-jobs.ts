import { bufferOf, buffersOf } from '../bytes.ts'
import { defineJob } from '../work/job.ts'
import { type Avatar, avatarOf, avatarProblem } from './cards/avatar.ts'
import { type Card, readCard } from './cards/card.ts'
import { describeCard } from './cards/description.ts'
import { exportCard } from './cards/export.ts'
import { type CardSource, type ExportFormat, readCardSource } from './cards/source.ts'
import { aboutCard, creatorNotes, hiddenFields, versionOf } from './cards/summary.ts'
import type { Character, StoredCharacter } from './library/character.ts'
import { emptyNotes } from './lore/lorebook.ts'
import { maxExpandedLength, tooLarge } from './macros/macros.ts'
import type { CompositionRequest, Persona } from './prompt/composition.ts'
import { shownGreetings } from './prompt/greetings.ts'
import { listBody } from './schemas.ts'

/** A card's file for a download. */
interface CardFile {
  /** Null if the file is the card's own. */
  readonly bytes: Uint8Array | null
  /** Parts of the card that the file does not contain, one sentence each. */
  readonly losses: readonly string[]
}

/** Writes a card in a format. */
export const exportJob = defineJob(
  import.meta.url,
  'exportJob',
  (input: { readonly bytes: Uint8Array; readonly format: ExportFormat }): CardFile => {
    const source = readCardSource(bufferOf(input.bytes))
    const { bytes, losses } = exportCard(source, input.format)
    return { bytes: bytes === source.bytes ? null : bytes, losses }
  },
  ({ bytes }) => (bytes ? buffersOf(bytes) : []),
)

/** Takes the picture out of a card. */
export const avatarJob = defineJob(
  import.meta.url,
  'avatarJob',
  (bytes: Uint8Array): Avatar => avatarOf(readCardSource(bufferOf(bytes))),
  ({ bytes }) => buffersOf(bytes),
)

/** Makes the JSON of a character's body. */
export const bodyJob = defineJob(
  import.meta.url,
  'bodyJob',
  (input: { readonly bytes: Uint8Array; readonly character: ShownCharacter; readonly viewer: Viewer }): Uint8Array => {
    const body = publicBody(input.character, readCardSource(bufferOf(input.bytes)), input.viewer)
    return Buffer.from(JSON.stringify(body))
  },
  buffersOf,
)

/** The character of a body. */
type ShownCharacter = Pick<Character, 'name' | 'origin' | 'digest'>

/** The properties of a request that decide what the reply shows of a character. */
interface Viewer {
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
  /** The time that the greetings show. */
  readonly now: Date
}

/** The body for a character. It contains the hidden fields of the card only if the viewer may read the card. */
function publicBody({ name, origin, digest }: ShownCharacter, source: CardSource, viewer: Viewer) {
  const { document } = source
  const notes = emptyNotes()
  const card = readCard(document, notes)
  const summary = describeCard(card, source, notes)
  const { refused_regexes, ignored, never_fire, warnings, greetings: _count, ...description } = summary
  const { isReadable, languages, stored, conversationId, userName, now } = viewer
  const noted = stored?.digest === digest ? stored.about.avatar : undefined
  const avatar = noted ?? avatarProblem(source).has
  const times = origin === 'account' && stored ? { created: stored.created, updated: stored.updated } : {}
  const greetings = greetingsOf(card, { name, digest, userName }, { conversationId, now })
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
function greetingsOf(
  card: Card,
  persona: Pick<Persona, 'name' | 'userName' | 'digest'>,
  request: Pick<CompositionRequest, 'conversationId' | 'now'>,
) {
  const greetings: { index: number; text: string }[] = []
  let length = 0
  shownGreetings(card, persona, request, (index, text) => {
    length += text.length
    if (length > maxExpandedLength) throw tooLarge()
    greetings.push({ index, text })
  })
  return greetings
}
