import { type Fields, isFields, textIn, valueIn } from '../../fields.ts'
import { beginningOf, copyOf } from '../../text.ts'
import { dataOf, pygmalionNames } from './versions.ts'

/** The public facts of a card, besides its name and greetings. */
export interface CardAbout {
  readonly tags: readonly string[]
  readonly creator: string
  /** Whether the card has a picture. Missing for an upload from before 0.2.0, until the service has checked the upload. */
  readonly avatar?: boolean
}

/** The first tags and the creator of a card, for lists of characters. */
export function aboutCard(document: Fields): CardAbout {
  const data = dataOf(document)
  return { tags: tagsOf(valueIn(data, 'tags')), creator: beginningOf(textIn(data, 'creator'), maxCreatorLength) }
}

/** The version that the creator gave the card. */
export function versionOf(document: Fields): string {
  const version = valueIn(dataOf(document), 'character_version')
  return typeof version === 'string' || typeof version === 'number' ? String(version) : ''
}

/**
 * The creator's notes in the first of these languages that the card has, else in English, else `creator_notes`
 * (test/characters/requirements.md, 2.3).
 */
export function creatorNotes(document: Fields, languages: readonly string[]): string {
  const data = dataOf(document)
  const notes = textIn(data, 'creator_notes') || textIn(data, 'creatorcomment')
  const translated = valueIn(data, 'creator_notes_multilingual')
  if (!isFields(translated)) return notes
  const inLanguage = (language: string) =>
    textIn(translated, language) || (language === 'en' && !Object.hasOwn(translated, 'en') ? notes : '')
  const [found] = languages.map(inLanguage).filter((note) => note !== '')
  return found ?? (inLanguage('en') || notes)
}

/** The fields that a reply has only for a caller who may read the whole card: they would spoil the story for other users. */
const hidden = [
  'nickname',
  'description',
  'personality',
  'scenario',
  'mes_example',
  'system_prompt',
  'post_history_instructions',
  'character_book',
]

/** Pygmalion's names of V1's fields, by the usual names. */
const namesInV1: ReadonlyMap<string, string> = new Map(Object.entries(pygmalionNames))

/** The hidden fields of a card by their usual names; the values are unchanged. */
export function hiddenFields(document: Fields): Record<string, unknown> {
  const data = dataOf(document)
  const names = hidden.map((name) => [name, Object.hasOwn(data, name) ? name : namesInV1.get(name)] as const)
  return Object.fromEntries(
    names.flatMap(([name, theirs]) =>
      theirs !== undefined && Object.hasOwn(data, theirs) ? [[name, data[theirs]] as const] : [],
    ),
  )
}

/** The most characters of `creator` in a list: a list has up to a thousand cards, and a text of a card may have megabytes. */
const maxCreatorLength = 200
/** The most tags of a card in a list, and the most characters of these tags. More tags would not help to find a character. */
const maxTags = 100
const maxTagsLength = 2000
/** The most tags of a card that are read, including blank tags. */
const maxReadTags = 1000

/** The first tags of a card. Some programs write all tags as one text with commas. */
function tagsOf(value: unknown): readonly string[] {
  const written: readonly unknown[] =
    typeof value === 'string' ? value.split(',', maxReadTags) : Array.isArray(value) ? value : []
  const tags: string[] = []
  let length = 0
  for (const each of written.slice(0, maxReadTags)) {
    const tag = typeof each === 'string' ? each.trim() : ''
    if (tag === '') continue
    length += tag.length
    if (tags.length === maxTags || length > maxTagsLength) break
    tags.push(copyOf(tag))
  }
  return tags
}
