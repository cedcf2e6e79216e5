import { type Fields, isFields, textIn, textsIn, valueIn } from '../../fields.ts'
import { withoutControls } from '../../text.ts'
import { spend } from '../../work/fuel.ts'
import { isDecorator, itemsIn, splitDecorators } from '../lore/decorators.ts'
import { isSlashForm } from '../lore/keys.ts'
import { cardVersion, pygmalionNames, specs } from './versions.ts'

/*
 * Converts cards between V2 and V3 without loss: a card that is converted and converted back is deeply equal to the original. The
 * exception is a V3 card that lacks required fields: the result has these fields.
 *
 * Fields that the other version does not define stay in their places, as unknown fields. Every change (`spec`, lore that loses
 * its decorators, a required field that is added) is noted in `data.extensions.conservatory.conversion` with the value before and
 * after. The conversion back removes the note, and restores each value that was not edited meanwhile. Edits by other programs
 * stay. Cards of V1 get no note, because the service never writes V1.
 */

/** The versions that exports are written in. */
export type WrittenVersion = 'v2' | 'v3'

/** A change of one value of the document. An added value has no `before`, and a removed value has no `after`. */
interface Change {
  readonly path: Path
  readonly before?: unknown
  readonly after?: unknown
}

type Path = readonly (string | number)[]
/** Units of work for each change, besides its text. */
const unitsOfChange = 100
/** Units of work to check a key. */
const unitsOfKey = 60
/** Units of work to compare a property. */
const unitsOfName = 20
/** Units of work to check an entry, besides its text. */
const unitsOfEntry = 150
/** Units of work for each line of decorators. */
const unitsOfLine = 20

const extensionsPath = ['data', 'extensions']
const ownPath = [...extensionsPath, 'conservatory']
const notePath = [...ownPath, 'conversion']
const entriesPath = ['data', 'character_book', 'entries']
const bookPath = ['data', 'character_book']
const greetingsPath = ['data', 'group_only_greetings']
const creatorNotesPath = ['data', 'creator_notes']
/** Required fields of V2 and V3 with their empty values (V2, "The new fields"; V3, "CharacterCard Object"). */
const requiredFields = {
  ...{ name: '', description: '', personality: '', scenario: '', first_mes: '', mes_example: '' },
  ...{ creator_notes: '', system_prompt: '', post_history_instructions: '', alternate_greetings: [], tags: [] },
  ...{ creator: '', character_version: '', extensions: {} },
}

/** Required fields of a lorebook's entry in V2 and V3, besides V3's `use_regex`. */
const entryFields = { keys: [], content: '', extensions: {}, enabled: true, insertion_order: 0 }

/** The most keys of a noted path. */
const maxPathKeys = 5
/** The most characters of a key of a path (a lorebook may name its entries), and of a key of lore. */
const maxKeyLength = 10_000

/** The paths that a note may name, besides paths of lore entries. Other paths are ignored, because a note may be forged. */
const notedPaths = new Set(
  [
    ...[['spec'], ['spec_version'], greetingsPath, creatorNotesPath, extensionsPath, ownPath, notePath],
    ...Object.keys(requiredFields).map((name) => ['data', name]),
    ...['extensions', 'entries'].map((name) => [...bookPath, name]),
  ].map(keyOf),
)

/** The warning in the creator's notes of a V2 copy next to a V3 card (V3, "PNG/APNG", backfilling). */
const copyWarning =
  'This is a copy of a Character Card V3 for programs that only know V2, and parts of the card may not work with it. ' +
  'Use a program that reads V3.'

/** The document in this version: `document` itself, if it already has this version and, for V3, all required fields. */
export function toVersion(document: Fields, version: WrittenVersion): Fields {
  spend(unitsOfChange)
  if (cardVersion(document) === version) return complete(document, version)
  const restored = restore(document)
  if (cardVersion(restored) === version) return complete(restored, version)
  if (cardVersion(document) === 'v1') return complete(upgradeV1(document, version), version)
  return converted(document, version, version === 'v2' ? changesToV2(document) : additions(document, 'v3'))
}

/** A document of V3 with all required fields (V3, "CharacterCard Object", "Lorebook Object"); one of V2 stays as it is. */
function complete(document: Fields, version: WrittenVersion): Fields {
  return version === 'v3' ? withChanges(document, additions(document, 'v3')) : document
}

/** The V2 copy next to a V3 card in a picture: without decorators, and with a warning in the creator's notes. */
export function toBackfill(document: Fields): Fields {
  const notes = valueAt(document, creatorNotesPath).value
  const after = typeof notes === 'string' && notes !== '' ? `${copyWarning}\n\n${notes}` : copyWarning
  const warning = changeAt(document, creatorNotesPath, after)
  const changes = changesToV2(document).filter(({ path }) => keyOf(path) !== keyOf(creatorNotesPath))
  return converted(document, 'v2', [...changes, warning])
}

/** The text without its leading decorators, and without the blank lines around them (V3, "Decorators"). */
export function withoutDecorators(content: string): string {
  const text = content.trimStart()
  let start = 0
  while (isDecorator(text, start)) {
    const end = text.indexOf('\n', start)
    start = end === -1 ? text.length : end + 1
    spend(unitsOfLine)
  }
  if (start === 0) return content
  const rest = text.slice(start)
  const firstNonBlank = rest.search(/\S/)
  return firstNonBlank === -1 ? '' : rest.slice(rest.lastIndexOf('\n', firstNonBlank) + 1)
}

/** The changes that turn a V3 card into a V2 card, besides `spec` and `spec_version`. */
function changesToV2(document: Fields): readonly Change[] {
  return [...additions(document, 'v2'), ...decoratorRemovals(document)]
}

/** Changes that add required fields that are missing or null. The added values do not change the meaning of the card. */
function additions(document: Fields, version: WrittenVersion): readonly Change[] {
  const changes: Change[] = []
  const isV3 = version === 'v3'
  const fill = (path: Path, fields: Readonly<Record<string, unknown>>) => {
    for (const [name, after] of Object.entries(fields)) {
      const { value } = valueAt(document, [...path, name])
      if (value == null) changes.push(changeAt(document, [...path, name], after))
    }
  }
  fill(['data'], { ...requiredFields, ...(isV3 ? { group_only_greetings: [] } : {}) })
  if (!isFields(valueAt(document, bookPath).value)) return changes
  fill(bookPath, { extensions: {}, entries: [] })
  for (const { path, entry } of entriesOf(document)) {
    spend(textIn(entry, 'content').length >> 3)
    fill(path, { ...entryFields, ...(isV3 ? { use_regex: hasPattern(entry) } : {}) })
  }
  return changes
}

/** The lore entries of a card that are objects, with their paths. */
function* entriesOf(document: Fields): Iterable<{ readonly path: Path; readonly entry: Fields }> {
  const entries = valueAt(document, entriesPath).value
  if (typeof entries !== 'object' || entries === null) return
  for (const [key, entry] of Object.entries(entries)) {
    spend(unitsOfEntry)
    if (isFields(entry)) yield { path: [...entriesPath, Array.isArray(entries) ? Number(key) : key], entry }
  }
}

/**
 * The value for a missing `use_regex`: whether a key of the entry, or of its decorators, is a regex
 * (test/characters/requirements.md, 6.4).
 */
function hasPattern(entry: Fields): boolean {
  const content = withoutControls(textIn(entry, 'content'))
  const decorators = splitDecorators(content).chains.flat()
  const lists = decorators.filter(({ name }) => name === 'additional_keys' || name === 'exclude_keys')
  const ofDecorators = lists.map(({ value }) => itemsIn(value))
  for (const keys of [textsIn(entry, 'keys'), textsIn(entry, 'secondary_keys'), ...ofDecorators]) {
    for (const key of keys) {
      spend(unitsOfKey)
      // A longer key is no pattern, also without the blanks around it.
      if (key.length <= maxKeyLength && isSlashForm(key.trim())) return true
    }
  }
  return false
}

function decoratorRemovals(document: Fields): readonly Change[] {
  const changes: Change[] = []
  for (const { path, entry } of entriesOf(document)) {
    const before = valueIn(entry, 'content')
    if (typeof before !== 'string') continue
    const after = withoutDecorators(before)
    if (before !== after) changes.push({ path: [...path, 'content'], before, after })
  }
  return changes
}

/** A V1 card in this version. Its `data` has all fields of the card, also unknown ones, and the required fields that it lacks. */
function upgradeV1(document: Fields, version: WrittenVersion): Fields {
  const fromPygmalion = Object.entries(pygmalionNames)
    .map(([name, theirs]) => [name, valueIn(document, theirs)] as const)
    .filter(([, value]) => typeof value === 'string')
  const required = { ...requiredFields, ...(version === 'v3' ? { group_only_greetings: [] } : {}) }
  // A required field that is null counts as missing.
  const given = Object.entries(document).filter(([name, value]) => value !== null || !Object.hasOwn(required, name))
  const data = { ...required, ...Object.fromEntries(fromPygmalion), ...Object.fromEntries(given) }
  return { ...specs[version], data }
}

/** Undoes the changes that the document's conversion note lists. A document without a note is returned unchanged. */
function restore(document: Fields): Fields {
  const note = valueAt(document, notePath).value
  const changes = isFields(note) ? valueIn(note, 'changes') : undefined
  if (!Array.isArray(changes)) return document
  const draft = new Draft(document)
  draft.put({ path: notePath })
  // A forged note may list a path many times. Each path is undone once, so that the time grows linearly with the note.
  const byPath = new Map<string, Change>()
  for (const change of changes) {
    spend(unitsOfChange)
    if (isChange(change)) byPath.set(keyOf(change.path), change)
  }
  for (const change of [...byPath.values()].reverse()) {
    spend(unitsOfChange)
    undo(draft, change)
  }
  return draft.document
}

/** Restores a value, unless it was edited after the conversion. */
function undo(draft: Draft, { path, ...change }: Change): void {
  const current = valueAt(draft.document, path)
  const isAsWritten = current.found === Object.hasOwn(change, 'after') && areEqual(current.value, change.after)
  if (isAsWritten) draft.put(Object.hasOwn(change, 'before') ? { path, after: change.before } : { path })
}

/** Whether two JSON values are deeply equal. */
function areEqual(one: unknown, other: unknown): boolean {
  if (typeof one !== 'object' || one === null || typeof other !== 'object' || other === null) {
    return Object.is(one, other)
  }
  const names = Object.keys(one)
  spend(unitsOfChange + names.length * unitsOfName)
  if (Array.isArray(one) !== Array.isArray(other) || names.length !== Object.keys(other).length) return false
  for (const name of names) {
    const value = valueAt(other, [name])
    if (!value.found || !areEqual(valueAt(one, [name]).value, value.value)) return false
  }
  return true
}

/** Converts a document with these changes, and notes them in it. */
function converted(document: Fields, version: WrittenVersion, changes: readonly Change[]): Fields {
  const { spec, spec_version } = specs[version]
  const parents = [extensionsPath, ownPath].filter((path) => !isFields(valueAt(document, path).value))
  const note = valueAt(document, notePath)
  const noted = [
    changeAt(document, ['spec'], spec),
    changeAt(document, ['spec_version'], spec_version),
    ...changes,
    ...parents.map((path) => changeAt(document, path, {})),
    ...(note.found ? [{ path: notePath, before: note.value }] : []),
  ]
  return withChanges(document, [...noted, { path: notePath, after: { changes: noted } }])
}

function withChanges(document: Fields, changes: readonly Change[]): Fields {
  if (changes.length === 0) return document
  const draft = new Draft(document)
  for (const change of changes) {
    spend(unitsOfChange)
    draft.put(change)
  }
  return draft.document
}

function changeAt(document: Fields, path: Path, after: unknown): Change {
  const { found, value } = valueAt(document, path)
  return found ? { path, before: value, after } : { path, after }
}

/** The value at a path of own properties. */
function valueAt(document: unknown, path: Path): { readonly found: boolean; readonly value: unknown } {
  let value = document
  for (const key of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) {
      return { found: false, value: undefined }
    }
    value = Object.getOwnPropertyDescriptor(value, key)?.value
  }
  return { found: true, value }
}

/** An editable document. It copies the objects that change, and shares all other objects with the original. */
class Draft {
  readonly document: Fields
  readonly #copies = new WeakSet<object>()

  constructor(document: Fields) {
    this.document = { ...document }
    this.#copies.add(this.document)
  }

  /** Sets or removes a value, always as an own property, even for the key `__proto__`. */
  put(change: Change): void {
    let parent: object = this.document
    for (const key of change.path.slice(0, -1)) {
      const child = this.#copyOf(parent, key)
      if (child === undefined) return
      parent = child
    }
    const key = change.path.at(-1)
    if (key === undefined) return
    // In arrays, only existing items are replaced or removed, so that the length never changes.
    if (Array.isArray(parent) && !(typeof key === 'number' && Object.hasOwn(parent, key))) return
    if (Object.hasOwn(change, 'after')) setOwn(parent, key, change.after)
    else Reflect.deleteProperty(parent, key)
  }

  /** The array or object at a key, copied unless it is a copy already. */
  #copyOf(parent: object, key: string | number): object | undefined {
    const { value } = valueAt(parent, [key])
    if (typeof value !== 'object' || value === null) return undefined
    if (this.#copies.has(value)) return value
    const copy = Array.isArray(value) ? [...value] : { ...value }
    this.#copies.add(copy)
    setOwn(parent, key, copy)
    return copy
  }
}

function setOwn(parent: object, key: string | number, value: unknown): void {
  Object.defineProperty(parent, key, { value, writable: true, enumerable: true, configurable: true })
}

function keyOf(path: Path): string {
  return path.join('\0')
}

/** Whether a value may be a part of a noted path. Joining longer texts would take 50 ms. */
function isKey(value: unknown): boolean {
  return typeof value === 'number' || (typeof value === 'string' && value.length <= maxKeyLength)
}

function isChange(value: unknown): value is Change {
  if (!isFields(value)) return false
  const path = valueIn(value, 'path')
  if (!Array.isArray(path) || path.length > maxPathKeys || !path.every(isKey)) return false
  const isOfLore = path.length === 5 && keyOf(path.slice(0, 3)) === keyOf(entriesPath)
  return (
    (isOfLore && (path[4] === 'use_regex' || Object.hasOwn(entryFields, path[4] ?? ''))) || notedPaths.has(keyOf(path))
  )
}
