import { laterFields } from '../cards.ts'
import type { Said } from './case.ts'

/** Fields of a card, or of a part of it. */
export type Fields = Readonly<Record<string, unknown>>

/** A V2 card of Fern. @param data the fields that differ from the default card */
export function cardOf(data: Fields): Fields {
  return { spec: 'chara_card_v2', spec_version: '2.0', data: { ...emptyData, ...data } }
}

/** A V3 card of Fern. @param data the fields that differ from the default card */
export function thirdOf(data: Fields): Fields {
  const more = { group_only_greetings: [], assets: [] }
  return { spec: 'chara_card_v3', spec_version: '3.0', data: { ...emptyData, ...more, ...data } }
}

const emptyData = {
  name: 'Fern',
  description: 'Fern tends a greenhouse.',
  personality: '',
  scenario: '',
  first_mes: 'Welcome.',
  mes_example: '',
  ...laterFields,
  extensions: {},
}

/** A V2 card with a lorebook of entries. @param entries from `entryOf` */
export function loreCard(entries: readonly Fields[], data: Fields = {}): Fields {
  return cardOf({ ...data, character_book: bookOf(entries) })
}

/** A lorebook as cards contain it. */
export function bookOf(entries: readonly Fields[], book: Fields = {}): Fields {
  const indexed = entries.map((entry, index) => ({ ...entry, id: index }))
  return { name: '', extensions: {}, ...book, entries: indexed }
}

/**
 * An entry as SillyTavern exports it, with all of SillyTavern's extensions.
 * @param keys the keys, separated by commas
 * @param extensions the extensions that differ from the default
 * @param fields the fields of the entry that differ from the default
 */
export function entryOf(keys: string, content: string, extensions: Fields = {}, fields: Fields = {}): Fields {
  return {
    keys: keys.split(','),
    secondary_keys: [],
    comment: content.slice(0, 20),
    content,
    constant: false,
    selective: true,
    insertion_order: 100,
    enabled: true,
    position: 'before_char',
    use_regex: true,
    ...fields,
    extensions: { ...standardExtensions, ...extensions },
  }
}

const standardExtensions = {
  position: 0,
  exclude_recursion: false,
  prevent_recursion: false,
  delay_until_recursion: false,
  display_index: 0,
  probability: 100,
  useProbability: true,
  depth: 4,
  role: 0,
  selectiveLogic: 0,
  group: '',
  group_override: false,
  group_weight: 100,
  scan_depth: null,
  match_whole_words: null,
  case_sensitive: null,
  use_group_scoring: false,
  automation_id: '',
  vectorized: false,
  sticky: 0,
  cooldown: 0,
  delay: 0,
}

/** An entry without extensions, as in the specifications. */
export function plainEntry(keys: string, content: string, fields: Fields = {}): Fields {
  return { keys: keys.split(','), content, enabled: true, insertion_order: 100, extensions: {}, ...fields }
}

/** A world file of SillyTavern. @param entries the fields that differ from what SillyTavern's editor writes */
export function worldFile(entries: readonly Fields[]): Fields {
  return { entries: Object.fromEntries(entries.map((entry, uid) => [uid, { ...standardFields, ...entry, uid }])) }
}

const standardFields = {
  key: [],
  keysecondary: [],
  comment: '',
  content: '',
  constant: false,
  vectorized: false,
  selective: true,
  selectiveLogic: 0,
  addMemo: true,
  order: 100,
  position: 0,
  disable: false,
  ignoreBudget: false,
  excludeRecursion: false,
  preventRecursion: false,
  delayUntilRecursion: 0,
  probability: 100,
  useProbability: true,
  depth: 4,
  group: '',
  groupOverride: false,
  groupWeight: 100,
  scanDepth: null,
  caseSensitive: null,
  matchWholeWords: null,
  useGroupScoring: null,
  automationId: '',
  role: 0,
  sticky: 0,
  cooldown: 0,
  delay: 0,
  triggers: [],
}

/** A conversation in which the user and the character take turns. The user begins. */
export function talk(...texts: readonly string[]): readonly Said[] {
  return texts.map((content, index) => ({ role: index % 2 === 0 ? 'user' : 'assistant', content }))
}
