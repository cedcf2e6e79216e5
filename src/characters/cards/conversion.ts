import { isDeepStrictEqual } from 'node:util'
import { type Fields, isFields, valueIn } from '../../fields.ts'
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
/** A copy that is ours to change. */
type Draft = Record<string, unknown>

const extensionsPath = ['data', 'extensions']
const ownPath = [...extensionsPath, 'conservatory']
const notePath = [...ownPath, 'conversion']
const entriesPath = ['data', 'character_book', 'entries']
const greetingsPath = ['data', 'group_only_greetings']
const creatorNotesPath = ['data', 'creator_notes']
/** The paths that a note may name, beside those of lore; whatever else a card claims there is ignored. */
const notedPaths = new Set(
  [['spec'], ['spec_version'], greetingsPath, creatorNotesPath, extensionsPath, ownPath, notePath].map(keyOf),
)

/** Fields that V2 and V3 say must be there, beside those of V1 (V2, "The new fields"; V3, "CharacterCard Object"). */
const requiredFields = {
  ...{ name: '', description: '', personality: '', scenario: '', first_mes: '', mes_example: '' },
  ...{ creator_notes: '', system_prompt: '', post_history_instructions: '', alternate_greetings: [], tags: [] },
  ...{ creator: '', character_version: '', extensions: {} },
}

/** What stands in the notes of a V2 copy beside a V3 card (V3, "PNG/APNG", backfilling). */
const copyWarning =
  'This is a copy of a Character Card V3 for programs that only know V2, and parts of the card may not work with it. ' +
  'Use a program that reads V3.'

/** The document in this version: itself where it is in it already. */
export function toVersion(document: Fields, version: WrittenVersion): Fields {
  if (cardVersion(document) === version) return document
  const restored = restore(document)
  if (cardVersion(restored) === version) return restored
  if (cardVersion(document) === 'v1') return lift(document, version)
  return applyAll(document, [...headerChanges(document, version), ...changesFor[version](document)])
}

/** The V2 copy that stands beside a V3 card in a picture: without decorators, and with a warning in its notes. */
export function toBackfill(document: Fields): Fields {
  const notes = valueAt(document, creatorNotesPath).value
  const after = typeof notes === 'string' && notes !== '' ? `${copyWarning}\n\n${notes}` : copyWarning
  const warning = changeAt(document, creatorNotesPath, after)
  return applyAll(document, [...headerChanges(document, 'v2'), ...undecorate(document), warning])
}

/** The text without its leading run of decorators, and without the blank lines around it (V3, "Decorators"). */
export function withoutDecorators(content: string): string {
  const lines = content.trimStart().split('\n')
  const firstOther = lines.findIndex((line) => !line.trimStart().startsWith('@@'))
  if (firstOther === 0) return content
  const rest = firstOther === -1 ? [] : lines.slice(firstOther)
  const firstFilled = rest.findIndex((line) => line.trim() !== '')
  return firstFilled === -1 ? '' : rest.slice(firstFilled).join('\n')
}

const changesFor: Readonly<Record<WrittenVersion, (document: Fields) => readonly Change[]>> = {
  v2: undecorate,
  v3: (document) => (valueAt(document, greetingsPath).found ? [] : [{ path: greetingsPath, after: [] }]),
}

function headerChanges(document: Fields, version: WrittenVersion): readonly Change[] {
  const { spec, spec_version } = specs[version]
  return [changeAt(document, ['spec'], spec), changeAt(document, ['spec_version'], spec_version)]
}

function undecorate(document: Fields): readonly Change[] {
  const entries = valueAt(document, entriesPath).value
  if (typeof entries !== 'object' || entries === null) return []
  const isList = Array.isArray(entries)
  return Object.entries(entries).flatMap(([key, entry]: [string, unknown]) => {
    const before = isFields(entry) ? valueIn(entry, 'content') : undefined
    const after = typeof before === 'string' ? withoutDecorators(before) : before
    return before === after ? [] : [{ path: [...entriesPath, isList ? Number(key) : key, 'content'], before, after }]
  })
}

/** Puts the fields of a V1 card, unknown ones included, where V2 and V3 have them; its own `spec` too is one of them. */
function lift(document: Fields, version: WrittenVersion): Fields {
  const fromPygmalion = Object.entries(pygmalionNames)
    .map(([name, theirs]) => [name, valueIn(document, theirs)] as const)
    .filter(([, value]) => typeof value === 'string')
  const required = { ...requiredFields, ...(version === 'v3' ? { group_only_greetings: [] } : {}) }
  const data = { ...required, ...Object.fromEntries(fromPygmalion), ...document }
  return { ...specs[version], data: structuredClone(data) }
}

/** Undoes the changes that the document's note tells of; the document itself where it has none. */
function restore(document: Fields): Fields {
  const note = valueAt(document, notePath).value
  const changes = isFields(note) ? valueIn(note, 'changes') : undefined
  if (!Array.isArray(changes)) return document
  const draft: Draft = structuredClone(document)
  put(draft, { path: notePath })
  // Each path once: what a note makes us compare is then never more than the note is long.
  const byPath = new Map(changes.filter(isChange).map((change) => [keyOf(change.path), change]))
  for (const change of [...byPath.values()].reverse()) undo(draft, change)
  return draft
}

/** Values that were edited after the conversion stay. */
function undo(draft: Draft, { path, ...change }: Change): void {
  const current = valueAt(draft, path)
  const isAsWritten = current.found === Object.hasOwn(change, 'after') && isDeepStrictEqual(current.value, change.after)
  if (isAsWritten) put(draft, Object.hasOwn(change, 'before') ? { path, after: change.before } : { path })
}

function applyAll(document: Fields, conversions: readonly Change[]): Fields {
  const draft: Draft = structuredClone(document)
  const room = [extensionsPath, ownPath].flatMap((path) =>
    isFields(valueAt(document, path).value) ? [] : [changeAt(document, path, {})],
  )
  const note = valueAt(document, notePath)
  const former = note.found ? [{ path: notePath, before: note.value }] : []
  const changes = [...conversions, ...room, ...former]
  for (const change of structuredClone(changes)) put(draft, change)
  put(draft, { path: notePath, after: { changes } })
  return draft
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

/** Sets or removes a value of a draft as an own property, which no key, `__proto__` included, makes anything else. */
function put(draft: Draft, change: Change): void {
  const parent = valueAt(draft, change.path.slice(0, -1)).value
  const key = change.path.at(-1)
  if (typeof parent !== 'object' || parent === null || key === undefined) return
  // Of arrays only what they already hold is replaced: neither their length nor their other items change.
  if (Array.isArray(parent) && !(typeof key === 'number' && Object.hasOwn(parent, key))) return
  if (!Object.hasOwn(change, 'after')) Reflect.deleteProperty(parent, key)
  else {
    const property = { value: change.after, writable: true, enumerable: true, configurable: true }
    Object.defineProperty(parent, key, property)
  }
}

function keyOf(path: Path): string {
  return path.join('\0')
}

function isChange(value: unknown): value is Change {
  if (!isFields(value)) return false
  const path = valueIn(value, 'path')
  if (!Array.isArray(path) || !path.every((key) => typeof key === 'string' || typeof key === 'number')) return false
  const isContentOfLore = path.length === 5 && keyOf(path.slice(0, 3)) === keyOf(entriesPath) && path[4] === 'content'
  return isContentOfLore || notedPaths.has(keyOf(path))
}
