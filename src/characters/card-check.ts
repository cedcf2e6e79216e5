import { type Fields, valueIn } from '../fields.ts'
import { printable } from '../print.ts'
import { testsOf } from './cards/card-tests.ts'
import { type CardSummary, cappedList, describeCard } from './cards/description.ts'
import { misreadBook } from './cards/misread.ts'
import { readWholeFile } from './command-library.ts'
import { CardError } from './documents/card-error.ts'
import { readJsonDocument } from './documents/json-document.ts'
import { shownDigest } from './library/character.ts'
import { nameOf, readCardBytes } from './library/jobs.ts'
import { bookFields, emptyNotes, isWorldFile, readLorebook } from './lore/lorebook.ts'
import { neverFiring } from './lore/never-fires.ts'

/** The summary of a card or a lorebook, with the fields that the service ignores. */
type Contents = Partial<Omit<CardSummary, 'warnings'>>

/** The result of the check of one file. */
export interface FileCheck {
  readonly file: string
  readonly kind: 'card' | 'lorebook' | null
  readonly container: string | null
  readonly name: string | null
  readonly digest: string | null
  readonly contents: Contents | null
  /** The number of tests in the card. */
  readonly tests: number
  /** Faults that were tolerated, one sentence each. */
  readonly warnings: readonly string[]
  /** The reason why the file cannot be read. The code is `file_unreadable`, or the code of the error for an upload. */
  readonly error: { readonly code: string; readonly message: string } | null
}

const nothing = { kind: null, container: null, name: null, digest: null, contents: null, tests: 0, warnings: [] }

/** Reads files as the service would, and summarizes them. */
export async function checkFiles(files: readonly string[], maxBytes: number): Promise<readonly FileCheck[]> {
  const checks: FileCheck[] = []
  for (const file of files) {
    try {
      checks.push(checkBytes(file, await readWholeFile(file, maxBytes)))
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
    // A file that is not a card is checked as a lorebook, if it has `spec: lorebook_v3` or `entries`.
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
  const { warnings, ...contents } = describeCard(card, source, notes)
  return {
    file,
    kind: 'card',
    container: source.container,
    name: nameOf({ source }),
    digest: shownDigest(digest),
    contents,
    tests: tests.length,
    warnings: [...warnings, ...faults],
    error: null,
  }
}

function checkLorebook(file: string, document: Fields): FileCheck {
  const notes = emptyNotes()
  const fields = bookFields(document)
  const book = readLorebook(document, notes)
  const neverFired: string[] = []
  neverFiring(fields, book, (entry) => neverFired.push(entry))
  const contents = {
    lore_entries: book.written,
    regexes: notes.patterns.compiled,
    refused_regexes: notes.patterns.refused,
    ignored: [...notes.ignored],
    never_fire: cappedList(neverFired),
  }
  const warnings = isWorldFile(fields) ? [] : cappedList(misreadBook(fields, 'The book'))
  return { ...nothing, file, kind: 'lorebook', container: 'json', name: book.name, contents, warnings, error: null }
}

/** The checks as lines of text. */
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
