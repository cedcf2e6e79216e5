import { type Fields, valueIn } from '../fields.ts'
import { printable } from '../print.ts'
import { workAtOnce } from '../work.ts'
import { readWhole } from './card-import.ts'
import { testsOf } from './cards/card-tests.ts'
import { CappedList, type CardSummary, describeCard } from './cards/description.ts'
import { reportBook } from './cards/misread.ts'
import { CardError } from './documents/card-error.ts'
import { readJsonDocument } from './documents/json-document.ts'
import { nameOf, readCardBytes } from './library/card-bytes.ts'
import { shownDigest } from './library/character.ts'
import type { ReadingNotes } from './lore/entry.ts'
import { bookFields, emptyNotes, isWorldFile, readLorebook } from './lore/lorebook.ts'
import { neverFiring } from './lore/never-fires.ts'

/** What is in a card or a lorebook, and what of it the service would pass over. */
type Contents = Partial<Omit<CardSummary, 'warnings'>>

/** What is to be said of one file. */
export interface FileCheck {
  readonly file: string
  readonly kind: 'card' | 'lorebook' | null
  readonly container: string | null
  readonly name: string | null
  readonly digest: string | null
  readonly contents: Contents | null
  /** How many tests the card brings. */
  readonly tests: number
  /** What was taken in spite of a fault. */
  readonly warnings: readonly string[]
  /** Why it cannot be read, with the code that an upload of it would be refused with. */
  readonly error: { readonly code: string; readonly message: string } | null
}

const nothing = { kind: null, container: null, name: null, digest: null, contents: null, tests: 0, warnings: [] }

/** Looks at files as the service would. */
export async function checkFiles(files: readonly string[], largest: number): Promise<readonly FileCheck[]> {
  const checks: FileCheck[] = []
  for (const file of files) {
    try {
      checks.push(checkBytes(file, await readWhole(file, largest)))
    } catch (error) {
      if (!(error instanceof Error)) throw error
      const code = error instanceof CardError ? error.code : 'file_unreadable'
      checks.push({ ...nothing, file, error: { code, message: error.message } })
    }
  }
  return checks
}

function checkBytes(file: string, bytes: Buffer): FileCheck {
  try {
    return checkCard(file, bytes)
  } catch (error) {
    const document = documentIn(bytes)
    // What says that it is a lorebook is judged as one; what says nothing is one when it can be read as one.
    if (document && valueIn(document, 'spec') === 'lorebook_v3') return checkLorebook(file, document)
    if (!document || !Object.hasOwn(document, 'entries')) throw error
    return checkLorebook(file, document)
  }
}

function documentIn(bytes: Buffer): Fields | undefined {
  try {
    return readJsonDocument(bytes)
  } catch {
    return undefined
  }
}

function checkCard(file: string, bytes: Buffer): FileCheck {
  const { card, digest, source, notes } = readCardBytes(bytes)
  const { tests, faults } = testsOf(source.document)
  const { warnings, ...contents } = workAtOnce().run('character', describeCard(card, source, notes))
  return {
    file,
    kind: 'card',
    container: source.container,
    name: nameOf(card),
    digest: shownDigest(digest),
    contents,
    tests: tests.length,
    warnings: [...warnings, ...faults],
    error: null,
  }
}

function checkLorebook(file: string, document: Fields): FileCheck {
  const notes = emptyNotes()
  const work = workAtOnce()
  const { name, written, ...told } = work.run('lorebook', checkSteps(document, notes))
  const contents = {
    lore_entries: written,
    regexes: notes.patterns.compiled,
    refused_regexes: notes.patterns.refused,
    ignored: [...notes.ignored],
    never_fire: told.unfired,
  }
  const { warnings } = told
  return { ...nothing, file, kind: 'lorebook', container: 'json', name, contents, warnings, error: null }
}

function* checkSteps(document: Fields, notes: ReadingNotes) {
  const fields = bookFields(document)
  const book = yield* readLorebook(document, notes)
  const [unfired, warnings] = [new CappedList(), new CappedList()]
  yield* neverFiring(fields, book, (entry) => unfired.add(entry))
  if (!isWorldFile(fields)) yield* reportBook(fields, 'The book', (sentence) => warnings.add(sentence))
  return { name: book.name, written: book.written, unfired: unfired.list, warnings: warnings.list }
}

/** Checks as lines for people. */
export function checkLines(checks: readonly FileCheck[]): readonly string[] {
  return checks.flatMap(linesOf)
}

function linesOf({ file, kind, container, name, digest, contents, tests, warnings, error }: FileCheck): string[] {
  if (error) return [`${file}: cannot be read (${error.code}): ${error.message}`]
  const { refused_regexes = [], ignored = [], never_fire = [], ...counts } = contents ?? {}
  const facts = Object.entries({ ...counts, tests }).map(([what, value]) => `${what.replaceAll('_', ' ')}: ${value}`)
  const lines = [
    ...(digest === null ? [] : [digest]),
    facts.join(', '),
    ...refused_regexes.map((regex) => `refused regex: ${regex}`),
    ...ignored.map((field) => `ignored: ${field}`),
    ...never_fire.map((entry) => `never fires: ${entry}`),
    ...warnings.map((warning) => `warning: ${warning}`),
  ]
  return [`${file}: ${kind} ${JSON.stringify(name)} (${container})`, ...lines.map((line) => `  ${line}`)].map(printable)
}
