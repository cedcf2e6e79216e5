import { booleanIn, type Fields, fieldsIn, numberIn, textIn, textsIn, valueIn } from '../../fields.ts'
import { beginningOf, withoutControls } from '../../text.ts'
import { spend } from '../../work/fuel.ts'
import {
  anyContext,
  type Decorated,
  type Decorators,
  itemsIn,
  type Role,
  readDecorators,
  splitDecorators,
} from './decorators.ts'
import { isSlashForm, type LoreKey, maxKeyLength, maxKeys, readKey } from './keys.ts'
import type { PatternCount } from './pattern.ts'

/** Where the body of an entry is in the prompt. */
export type LorePlace =
  | { readonly section: 'before_char' | 'after_char' | 'before_examples' | 'after_examples' | 'nowhere' }
  /** In the message of the author's note, above or below the note. */
  | { readonly section: 'above_note' | 'below_note' }
  | { readonly section: 'depth'; readonly depth: number; readonly role: Role }

/** Which secondary keys must occur: SillyTavern's `selectiveLogic`, in the order of its numbers from 0 to 3. */
export type SelectiveLogic = 'any' | 'not all' | 'not any' | 'all'

/** An entry of a lorebook, prepared for scans. */
export interface LoreEntry {
  /** The index in the file. */
  readonly index: number
  readonly name: string
  /** The content without decorators, with unexpanded macros. */
  readonly body: string
  readonly keys: readonly LoreKey[]
  /**
   * Empty if the entry is not selective, or if a regular expression switches secondary keys off
   * (test/characters/requirements.md, 6.4).
   */
  readonly secondaryKeys: readonly LoreKey[]
  readonly logic: SelectiveLogic
  readonly constant: boolean
  readonly caseSensitive: boolean
  /** Whether keys must stand between word borders. `@@match_full_word` and `@@match_partial_word` override this value. */
  readonly wholeWords: boolean
  readonly insertionOrder: number
  /**
   * If lore exceeds its budget or the context window, the entries with the lowest priority are dropped first. `@@priority`
   * overrides this value, and entries with `@@ignore_on_max_context` are dropped before all others.
   */
  readonly priority: number
  readonly scanDepth: number | undefined
  readonly place: LorePlace
  /** In percent. `@@probability` overrides this value. */
  readonly probability: number
  readonly excludeRecursion: boolean
  readonly preventRecursion: boolean
  /** The first recursion level at which the entry may match; 0 if it may match without recursion. */
  readonly recursionLevel: number
  readonly groups: readonly string[]
  readonly groupOverride: boolean
  readonly groupWeight: number
  /** The characters and replies that the entry is for; undefined for all. */
  readonly audience: Audience | undefined
  /** The number of messages that the conversation must have before the entry may fire. */
  readonly delay: number
  /** After the entry has fired, it stays on for `sticky` messages. Then it stays off for `cooldown` messages. */
  readonly sticky: number
  readonly cooldown: number
  /** Texts besides the conversation in which the keys are searched for: texts of the card, and the user's persona. */
  readonly alsoScans: readonly ScannedField[]
  /** The rules of the entry's decorators in each of the eight contexts; the index is the number from `decoratorContext`. */
  readonly decorators: readonly DecoratedRules[]
}

/** Decorators with their keys parsed. */
export interface DecoratedRules extends Decorators {
  readonly additional: readonly (readonly LoreKey[])[]
  readonly excluded: readonly (readonly LoreKey[])[]
}

/** Whether decorators choose the place of an entry's body, instead of `LoreEntry.place`. */
export function choosesPlace({ position, depth, reverseDepth }: Decorators): boolean {
  return position !== undefined || depth !== undefined || reverseDepth !== undefined
}

/** The characters and kinds of replies that an entry is for, from SillyTavern's fields `characterFilter` and `triggers`. */
export interface Audience {
  /** Names and tags of characters, in lower case; an empty list allows all. */
  readonly names: readonly string[]
  readonly tags: readonly string[]
  /** Whether the entry is for all characters except those in the lists `names` and `tags`. */
  readonly isExcluding: boolean
  /** Kinds of replies; an empty list allows all. */
  readonly replies: readonly string[]
}

export type ScannedField = 'description' | 'personality' | 'scenario' | 'depthNote' | 'persona'

/** Counts and ignored fields that are collected while entries are read, for the reports about a card or lorebook. */
export interface ReadingNotes {
  readonly patterns: PatternCount
  readonly ignored: Set<string>
}

/** The most inclusion groups of one entry. */
const maxGroups = 20
const standardDepth = 4
/** The most items of a list that are read. Blank items count too. */
const maxParts = 1000
/** The most characters that count of a group, of a character's name or tag, and of a kind of reply. */
const maxNameLength = 200
/** The most characters of a text with commas. A longer text is ignored. */
const maxListLength = 100_000

/** Units of work to read one entry, and to read one key. */
const unitsOfEntry = 200
const unitsOfKey = 60

/** Reads an entry in the form that it has in a card; undefined if the entry is disabled, or has no content besides decorators. */
export function readEntry(entry: Fields, index: number, notes: ReadingNotes): LoreEntry | undefined {
  if (isDisabled(entry)) return undefined
  const content = withoutControls(textIn(entry, 'content'))
  spend(unitsOfEntry + (content.length >> 4))
  const { body, chains, isCut } = splitDecorators(content)
  if (isCut) notes.ignored.add('character_book.entries[].content has too many or too long decorators')
  if (body === '') return undefined
  const extensions = fieldsIn(entry, 'extensions')
  noteIgnored(extensions, notes)

  const allowsPatterns = valueIn(entry, 'use_regex') !== false
  const written = textsIn(entry, 'keys')
  const isPattern = allowsPatterns && !isFromSillyTavern(extensions) && written.slice(0, maxKeys).some(isSlashForm)
  const readKeys = (texts: readonly string[]) => keysOf(texts, allowsPatterns, notes)
  const insertionOrder = numberIn(entry, 'insertion_order') ?? 0
  const decorators = readRules(chains, readKeys, isPattern, notes)
  const keys = readKeys(written)
  const hasSecondary = valueIn(entry, 'selective') === true && !isPattern
  const secondaryKeys = hasSecondary ? readKeys(commaSeparated(entry, 'secondary_keys', notes.ignored)) : []
  return {
    index,
    name: textIn(entry, 'name') || textIn(entry, 'comment'),
    body,
    keys,
    secondaryKeys,
    logic: logicOf(extensions),
    constant: valueIn(entry, 'constant') === true && !isPattern,
    caseSensitive: booleanIn(extensions, 'case_sensitive') ?? valueIn(entry, 'case_sensitive') === true,
    // In SillyTavern, an entry without this field follows the global setting, which is on by default.
    wholeWords: booleanIn(extensions, 'match_whole_words') ?? isFromSillyTavern(extensions),
    insertionOrder,
    priority: numberIn(entry, 'priority') ?? insertionOrder,
    scanDepth: numberIn(extensions, 'scan_depth'),
    place: placeOf(entry, extensions),
    probability: probabilityOf(extensions),
    excludeRecursion: valueIn(extensions, 'exclude_recursion') === true,
    preventRecursion: valueIn(extensions, 'prevent_recursion') === true,
    recursionLevel: recursionLevelOf(extensions),
    groups: groupsOf(extensions, notes),
    groupOverride: valueIn(extensions, 'group_override') === true,
    groupWeight: Math.max(0, numberIn(extensions, 'group_weight') ?? 100),
    audience: audienceOf(entry, extensions, notes),
    delay: messagesIn(extensions, 'delay'),
    sticky: messagesIn(extensions, 'sticky'),
    cooldown: messagesIn(extensions, 'cooldown'),
    alsoScans: scannedFields.filter(([name]) => valueIn(extensions, name) === true).map(([, field]) => field),
    decorators,
  }
}

/** Whether an entry is switched off. */
export function isDisabled(entry: Fields): boolean {
  const enabled = valueIn(entry, 'enabled')
  return enabled === false || enabled === 'false' || enabled === 0
}

/**
 * Whether the extensions show that SillyTavern wrote the entry. In an entry of SillyTavern, a regular expression does not switch
 * off `constant`, the secondary keys and `@@exclude_keys` (test/characters/requirements.md, 6.4).
 */
function isFromSillyTavern(extensions: Fields): boolean {
  return numberIn(extensions, 'position') !== undefined || numberIn(extensions, 'display_index') !== undefined
}

function keysOf(texts: readonly string[], allowsPatterns: boolean, notes: ReadingNotes): readonly LoreKey[] {
  spend(texts.length + Math.min(texts.length, maxKeys) * unitsOfKey)
  if (texts.length > maxKeys) notes.ignored.add(`character_book.entries[].keys[${maxKeys}…]`)
  if (texts.some((text) => text.length > maxKeyLength)) notes.ignored.add('character_book.entries[].keys[] too long')
  const keys: LoreKey[] = []
  for (const text of texts.slice(0, maxKeys)) {
    const key = readKey(text, allowsPatterns, notes.patterns)
    if (key) keys.push(key)
  }
  // The copy saves memory: V8 keeps spare capacity for an array that has grown, and books have thousands of lists.
  return keys.slice()
}

/**
 * Kinds of replies that the service can recognize. A request does not show SillyTavern's other kinds (`swipe`, `quiet` …).
 */
export const knownReplies: ReadonlySet<string> = new Set(['normal', 'continue'])
/** The id that SillyTavern writes instead of a tag. Only the SillyTavern of the book's author knows the tag of this id. */
const tagId = /^(?:[0-9a-f]{8}-[0-9a-f-]{27}|\d{10,})$/i

/** Reads the characters and replies that an entry is for; undefined for all. */
function audienceOf(entry: Fields, extensions: Fields, { ignored }: ReadingNotes): Audience | undefined {
  const filter = fieldsIn(entry, 'character_filter')
  const listed = (fields: Fields, name: string) =>
    textsIn(fields, name)
      .slice(0, maxParts)
      .map((text) => beginningOf(text, maxNameLength))
  const tags = listed(filter, 'tags')
  const replies = listed(extensions, 'triggers')
  if (tags.some((tag) => tagId.test(tag))) ignored.add('character_book.entries[].character_filter.tags by their ids')
  for (const reply of replies) {
    if (!knownReplies.has(reply)) ignored.add(`character_book.entries[].extensions.triggers ${reply.slice(0, 40)}`)
  }
  const lower = (text: string) => text.trim().toLowerCase()
  const audience = {
    names: listed(filter, 'names').map(lower),
    tags: tags.filter((tag) => !tagId.test(tag)).map(lower),
    isExcluding: valueIn(filter, 'isExclude') === true,
    replies,
  }
  return audience.names.length + audience.tags.length + replies.length === 0 ? undefined : audience
}

function messagesIn(extensions: Fields, name: string): number {
  return numberIn(extensions, name) ?? 0
}

function logicOf(extensions: Fields): SelectiveLogic {
  return (['any', 'not all', 'not any', 'all'] as const)[numberIn(extensions, 'selectiveLogic') ?? 0] ?? 'any'
}

function probabilityOf(extensions: Fields): number {
  if (booleanIn(extensions, 'useProbability') === false) return 100
  return numberIn(extensions, 'probability') ?? 100
}

function recursionLevelOf(extensions: Fields): number {
  if (valueIn(extensions, 'delay_until_recursion') === true) return 1
  return numberIn(extensions, 'delay_until_recursion') ?? 0
}

function readRules(
  chains: Decorated['chains'],
  readKeys: (texts: readonly string[]) => readonly LoreKey[],
  isPattern: boolean,
  notes: ReadingNotes,
): readonly DecoratedRules[] {
  if (chains.length === 0) return noRulesInAnyContext
  readDecorators(chains, anyContext, (name) => notes.ignored.add(`character_book.entries[].@@${name.slice(0, 40)}`))
  // All contexts share the keys of a list.
  const read = new Map<string, readonly LoreKey[]>()
  const keysOfLists = (lists: readonly string[] = []): readonly (readonly LoreKey[])[] => {
    for (const list of lists) if (!read.has(list)) read.set(list, readKeys(itemsIn(list)))
    return lists.map((list) => read.get(list) ?? [])
  }
  const rulesIn = (context: number): DecoratedRules => {
    const decorators = readDecorators(chains, {
      hasPersonality: (context & 1) !== 0,
      hasScenario: (context & 2) !== 0,
      knowsGreeting: (context & 4) !== 0,
    })
    const additional = keysOfLists(decorators.additionalKeys)
    const excluded = isPattern ? [] : keysOfLists(decorators.excludeKeys)
    return { ...decorators, additional, excluded }
  }
  const depends = chains.some((chain) => chain.some(({ name }) => name === 'position' || name === 'is_greeting'))
  const first = rulesIn(0)
  const rules = Array.from<DecoratedRules>({ length: 8 }).fill(first)
  if (depends) for (let context = 1; context < rules.length; context++) rules[context] = rulesIn(context)
  return rules
}

const noRulesInAnyContext: readonly DecoratedRules[] = Array.from({ length: 8 }, () => ({
  additional: [],
  excluded: [],
}))

function groupsOf(extensions: Fields, { ignored }: ReadingNotes): readonly string[] {
  const groups = commaSeparated(extensions, 'group', ignored)
  if (groups.length > maxGroups) ignored.add(`character_book.entries[].extensions.group[${maxGroups}…]`)
  if (groups.some(({ length }) => length > maxNameLength)) {
    ignored.add(`character_book.entries[].extensions.group of more than ${maxNameLength} characters`)
  }
  return groups.slice(0, maxGroups).map((group) => beginningOf(group, maxNameLength))
}

/** The items of a list, or of a text with commas; trimmed, and without blank items. */
function commaSeparated(fields: Fields, name: string, ignored: Set<string>): readonly string[] {
  const value = valueIn(fields, name)
  const isTooLong = typeof value === 'string' && value.length > maxListLength
  if (isTooLong) ignored.add(`character_book.entries[] with a ${name} of more than ${maxListLength} characters`)
  const text = isTooLong ? '' : value
  const texts = typeof text === 'string' ? text.split(',', maxParts) : textsIn(fields, name).slice(0, maxParts)
  return texts.map((text) => text.trim()).filter((text) => text !== '')
}

function placeOf(entry: Fields, extensions: Fields): LorePlace {
  const position = numberIn(extensions, 'position')
  if (position === 4) {
    const role = (['system', 'user', 'assistant'] as const)[numberIn(extensions, 'role') ?? 0] ?? 'system'
    return { section: 'depth', depth: Math.floor(numberIn(extensions, 'depth') ?? standardDepth), role }
  }
  const standard = valueIn(entry, 'position') === 'before_char' ? 'before_char' : 'after_char'
  return { section: (position === undefined ? undefined : sections.get(position)) ?? standard }
}

/** The sections of SillyTavern's positions. Position 4 is at a depth. */
const sections: ReadonlyMap<number, Exclude<LorePlace['section'], 'depth'>> = new Map([
  [0, 'before_char'],
  [1, 'after_char'],
  [2, 'above_note'],
  [3, 'below_note'],
  [5, 'before_examples'],
  [6, 'after_examples'],
  [7, 'nowhere'],
])

const scannedFields: readonly (readonly [string, ScannedField])[] = [
  ['match_character_description', 'description'],
  ['match_character_personality', 'personality'],
  ['match_scenario', 'scenario'],
  ['match_character_depth_prompt', 'depthNote'],
  ['match_persona_description', 'persona'],
]

/** The extensions that the service reads. Other extensions are reported as ignored, unless they are empty or 0. */
const knownExtensions: ReadonlySet<string> = new Set([
  ...'position display_index selectiveLogic case_sensitive match_whole_words scan_depth depth role probability'.split(
    ' ',
  ),
  ...'useProbability exclude_recursion prevent_recursion delay_until_recursion delay sticky cooldown triggers'.split(
    ' ',
  ),
  ...['group', 'group_override', 'group_weight', ...scannedFields.map(([name]) => name)],
])

function noteIgnored(extensions: Fields, { ignored }: ReadingNotes): void {
  for (const name of Object.keys(extensions)) {
    spend(unitsOfField)
    const value = extensions[name]
    if (!knownExtensions.has(name) && value !== 0 && !isEmptyValue(value))
      ignored.add(`character_book.entries[].extensions.${name.slice(0, 60)}`)
  }
  if (numberIn(extensions, 'position') === 7) ignored.add('character_book.entries[].extensions.position 7')
}

/** Units of work to check one field. */
const unitsOfField = 40

/** Whether a value can be ignored without loss: null, false, an empty text, or an object or list without elements. */
export function isEmptyValue(value: unknown): boolean {
  if (value == null || value === false || value === '') return true
  if (typeof value !== 'object') return false
  for (const name in value) if (Object.hasOwn(value, name)) return false
  return true
}
