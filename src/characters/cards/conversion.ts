import { isDeepStrictEqual } from 'node:util'
import { type Fields, isFields, textsIn, valueIn } from '../../fields.ts'
import type { Steps } from '../../work.ts'
import { isSlashForm } from '../lore/keys.ts'
import { cardVersion, pygmalionNames, specs } from './versions.ts'

/*
 * Writes cards of one version as another, so that the way back gives them deeply equal.
 *
 * Fields that the other version does not know stay where they are, as unknown fields. What has to change (`spec`, the
 * lore that loses its decorators, a field that must be there) is noted in `data.extensions.conservatory.conversion` with
 * its value before and after. On the way back each value that still is as it was written becomes what it was before, and
 * the note goes; what another program has edited meanwhile stays edited. Cards of V1 get no note: nothing writes V1.
 */

/** The versions that are written. */
export type WrittenVersion = 'v2' | 'v3'

/** A value of the document that was replaced; `before` or `after` is missing where there was none. */
interface Change {
  readonly path: Path
  readonly before?: unknown
  readonly after?: unknown
}

type Path = readonly (string | number)[]
/** Units of work of a change, beside its text. */
const unitsOfChange = 100
/** Units of work of looking at an entry. */
const unitsOfEntry = 200
/** Units of work of a line of decorators. */
const unitsOfLine = 20
const linesPerStep = 200
/** The beginning of a line that is a decorator. */
const decorator = /[^\S\n]*@@/y

const extensionsPath = ['data', 'extensions']
const ownPath = [...extensionsPath, 'conservatory']
const notePath = [...ownPath, 'conversion']
const entriesPath = ['data', 'character_book', 'entries']
const bookPath = ['data', 'character_book']
const greetingsPath = ['data', 'group_only_greetings']
const creatorNotesPath = ['data', 'creator_notes']
/** Fields that V2 and V3 say must be there, beside those of V1 (V2, "The new fields"; V3, "CharacterCard Object"). */
const requiredFields = {
  ...{ name: '', description: '', personality: '', scenario: '', first_mes: '', mes_example: '' },
  ...{ creator_notes: '', system_prompt: '', post_history_instructions: '', alternate_greetings: [], tags: [] },
  ...{ creator: '', character_version: '', extensions: {} },
}

/** Fields that V2 and V3 say an entry of a lorebook must have, beside V3's `use_regex`. */
const entryFields = { keys: [], content: '', extensions: {}, enabled: true, insertion_order: 0 }

/** The paths that a note may name, beside those of lore; whatever else a card claims there is ignored. */
const notedPaths = new Set(
  [
    ...[['spec'], ['spec_version'], greetingsPath, creatorNotesPath, extensionsPath, ownPath, notePath],
    ...Object.keys(requiredFields).map((name) => ['data', name]),
    ...['extensions', 'entries'].map((name) => [...bookPath, name]),
  ].map(keyOf),
)

/** What stands in the notes of a V2 copy beside a V3 card (V3, "PNG/APNG", backfilling). */
const copyWarning =
  'This is a copy of a Character Card V3 for programs that only know V2, and parts of the card may not work with it. ' +
  'Use a program that reads V3.'

/** The document in this version: itself where it is in it already, and, of V3, has all that it must have. */
export function* toVersion(document: Fields, version: WrittenVersion): Steps<Fields> {
  const complete = version === 'v3' ? completed : asItIs
  if (cardVersion(document) === version) return yield* complete(document)
  const restored = yield* restore(document)
  if (cardVersion(restored) === version) return yield* complete(restored)
  if (cardVersion(document) === 'v1') return yield* complete(lift(document, version))
  return yield* applyAll(document, [...headerChanges(document, version), ...(yield* changesFor[version](document))])
}

/** The V2 copy that stands beside a V3 card in a picture: without decorators, and with a warning in its notes. */
export function* toBackfill(document: Fields): Steps<Fields> {
  const notes = valueAt(document, creatorNotesPath).value
  const after = typeof notes === 'string' && notes !== '' ? `${copyWarning}\n\n${notes}` : copyWarning
  const warning = changeAt(document, creatorNotesPath, after)
  const lowered = (yield* lower(document)).filter(({ path }) => keyOf(path) !== keyOf(creatorNotesPath))
  return yield* applyAll(document, [...headerChanges(document, 'v2'), ...lowered, warning])
}

/** The text without its leading run of decorators, and without the blank lines around it (V3, "Decorators"). */
export function* withoutDecorators(content: string): Steps<string> {
  const text = content.trimStart()
  let start = 0
  let lines = 0
  while (isDecorator(text, start)) {
    const end = text.indexOf('\n', start)
    start = end === -1 ? text.length : end + 1
    lines++
    if (lines % linesPerStep === 0) yield linesPerStep * unitsOfLine
  }
  if (start === 0) return content
  const rest = text.slice(start)
  const firstFilled = rest.search(/\S/)
  return firstFilled === -1 ? '' : rest.slice(rest.lastIndexOf('\n', firstFilled) + 1)
}

function isDecorator(text: string, start: number): boolean {
  decorator.lastIndex = start
  return decorator.test(text)
}

const changesFor: Readonly<Record<WrittenVersion, (document: Fields) => Steps<readonly Change[]>>> = {
  v2: lower,
  v3: (document) => additions(document, 'v3'),
}

/** A V3 document with every field that its types say must be there (V3, "CharacterCard Object", "Lorebook Object"). */
function* completed(document: Fields): Steps<Fields> {
  const missing = yield* additions(document, 'v3')
  if (missing.length === 0) return document
  const draft = new Draft(document)
  for (const change of missing) {
    yield unitsOfChange
    draft.put(change)
  }
  return draft.document
}

function* asItIs(document: Fields): Steps<Fields> {
  yield unitsOfChange
  return document
}

/** What makes a V3 card one of V2: the fields that it must have there too, and lore without decorators. */
function* lower(document: Fields): Steps<readonly Change[]> {
  return [...(yield* additions(document, 'v2')), ...(yield* undecorate(document))]
}

/** The fields that a card of this version must have and this one lacks, or has as null: empty values, which change nothing. */
function* additions(document: Fields, version: WrittenVersion): Steps<readonly Change[]> {
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
  const entries = valueAt(document, entriesPath).value
  if (typeof entries !== 'object' || entries === null) return changes
  for (const [key, entry] of Object.entries(entries)) {
    yield unitsOfEntry
    if (!isFields(entry)) continue
    const path = [...entriesPath, Array.isArray(entries) ? Number(key) : key]
    fill(path, { ...entryFields, ...(isV3 ? { use_regex: hasPattern(entry) } : {}) })
  }
  return changes
}

/** Whether a key is a regular expression where nothing says whether keys are (docs/cards.md, 6.4). */
function hasPattern(entry: Fields): boolean {
  return [...textsIn(entry, 'keys'), ...textsIn(entry, 'secondary_keys')].some((key) => isSlashForm(key.trim()))
}

function headerChanges(document: Fields, version: WrittenVersion): readonly Change[] {
  const { spec, spec_version } = specs[version]
  return [changeAt(document, ['spec'], spec), changeAt(document, ['spec_version'], spec_version)]
}

function* undecorate(document: Fields): Steps<readonly Change[]> {
  const entries = valueAt(document, entriesPath).value
  if (typeof entries !== 'object' || entries === null) return []
  const isList = Array.isArray(entries)
  const changes: Change[] = []
  for (const [key, entry] of Object.entries(entries)) {
    yield unitsOfChange
    const before = isFields(entry) ? valueIn(entry, 'content') : undefined
    if (typeof before !== 'string') continue
    const after = yield* withoutDecorators(before)
    if (before !== after) changes.push({ path: [...entriesPath, isList ? Number(key) : key, 'content'], before, after })
  }
  return changes
}

/** Puts the fields of a V1 card, unknown ones included, where V2 and V3 have them; its own `spec` too is one of them. */
function lift(document: Fields, version: WrittenVersion): Fields {
  const fromPygmalion = Object.entries(pygmalionNames)
    .map(([name, theirs]) => [name, valueIn(document, theirs)] as const)
    .filter(([, value]) => typeof value === 'string')
  const required = { ...requiredFields, ...(version === 'v3' ? { group_only_greetings: [] } : {}) }
  const data = { ...required, ...Object.fromEntries(fromPygmalion), ...document }
  return { ...specs[version], data }
}

/** Undoes the changes that the document's note tells of; the document itself where it has none. */
function* restore(document: Fields): Steps<Fields> {
  const note = valueAt(document, notePath).value
  const changes = isFields(note) ? valueIn(note, 'changes') : undefined
  if (!Array.isArray(changes)) return document
  const draft = new Draft(document)
  draft.put({ path: notePath })
  // Each path once: what a note makes us compare is then never more than the note is long.
  const byPath = new Map<string, Change>()
  for (const change of changes) {
    yield unitsOfChange
    if (isChange(change)) byPath.set(keyOf(change.path), change)
  }
  for (const change of [...byPath.values()].reverse()) {
    yield unitsOfChange
    undo(draft, change)
  }
  return draft.document
}

/** Values that were edited after the conversion stay. */
function undo(draft: Draft, { path, ...change }: Change): void {
  const current = valueAt(draft.document, path)
  const isAsWritten = current.found === Object.hasOwn(change, 'after') && isDeepStrictEqual(current.value, change.after)
  if (isAsWritten) draft.put(Object.hasOwn(change, 'before') ? { path, after: change.before } : { path })
}

function* applyAll(document: Fields, conversions: readonly Change[]): Steps<Fields> {
  const room = [extensionsPath, ownPath].flatMap((path) =>
    isFields(valueAt(document, path).value) ? [] : [changeAt(document, path, {})],
  )
  const note = valueAt(document, notePath)
  const former = note.found ? [{ path: notePath, before: note.value }] : []
  const changes = [...conversions, ...room, ...former]
  const draft = new Draft(document)
  for (const change of changes) {
    yield unitsOfChange
    draft.put(change)
  }
  draft.put({ path: notePath, after: { changes } })
  return draft.document
}

function changeAt(document: Fields, path: Path, after: unknown): Change {
  const { found, value } = valueAt(document, path)
  return found ? { path, before: value, after } : { path, after }
}

/** Finds a value by own properties alone. */
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

/** A document that is ours to change: a copy of what is changed in it, and the rest as it was. */
class Draft {
  readonly document: Fields
  readonly #copies = new WeakSet<object>()

  constructor(document: Fields) {
    this.document = { ...document }
    this.#copies.add(this.document)
  }

  /** Sets or removes a value as an own property, which no key, `__proto__` included, makes anything else. */
  put(change: Change): void {
    let parent: object = this.document
    for (const key of change.path.slice(0, -1)) {
      const child = this.#copyOf(parent, key)
      if (child === undefined) return
      parent = child
    }
    const key = change.path.at(-1)
    if (key === undefined) return
    // Of arrays only what they already hold is replaced: neither their length nor their other items change.
    if (Array.isArray(parent) && !(typeof key === 'number' && Object.hasOwn(parent, key))) return
    if (Object.hasOwn(change, 'after')) setOwn(parent, key, change.after)
    else Reflect.deleteProperty(parent, key)
  }

  /** The array or object there, copied unless it is a copy already. */
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

function isChange(value: unknown): value is Change {
  if (!isFields(value)) return false
  const path = valueIn(value, 'path')
  if (!Array.isArray(path) || !path.every((key) => typeof key === 'string' || typeof key === 'number')) return false
  const isOfLore = path.length === 5 && keyOf(path.slice(0, 3)) === keyOf(entriesPath)
  return (
    (isOfLore && (path[4] === 'use_regex' || Object.hasOwn(entryFields, path[4] ?? ''))) || notedPaths.has(keyOf(path))
  )
}
