import { bufferOf, digestOf, sharedBytes } from '../../bytes.ts'
import { textIn } from '../../fields.ts'
import { inlineBodyBytes } from '../../http/body.ts'
import { inlineUnits, spentUnits } from '../../work/fuel.ts'
import { defineJob, type Job } from '../../work/job.ts'
import type { Work } from '../../work/work.ts'
import { avatarProblem } from '../cards/avatar.ts'
import { type Card, readCard } from '../cards/card.ts'
import { type CardSummary, describeCard } from '../cards/description.ts'
import type { KeptCard } from '../cards/kept-card.ts'
import { type CardSource, readCardSource, startsAsJson } from '../cards/source.ts'
import { aboutCard, type CardAbout } from '../cards/summary.ts'
import { cardData } from '../cards/versions.ts'
import { CardError } from '../documents/card-error.ts'
import { readJsonDocument } from '../documents/json-document.ts'
import type { ReadingNotes } from '../lore/entry.ts'
import type { KeptBook } from '../lore/kept-book.ts'
import { emptyNotes, readLorebook } from '../lore/lorebook.ts'
import { characterNameProblem } from './character.ts'

/** The most characters of a card's name that are read. */
const maxReadLength = 10_000

/** The results of reading a card's bytes. */
export interface ReadCard {
  readonly source: CardSource
  readonly card: Card
  /** SHA-256 of the bytes, 64 hex digits. */
  readonly digest: string
  readonly about: CardAbout
  /** Counts and ignored fields. */
  readonly notes: ReadingNotes
}

/** Reads a card from its bytes. @throws CardError */
export function readCardBytes(bytes: Buffer): ReadCard {
  const source = readCardSource(bytes)
  const notes = emptyNotes()
  const card = readCard(source.document, notes)
  const { has, warning } = avatarProblem(source)
  const about = { ...aboutCard(source.document), avatar: has }
  const warnings = warning === null ? source.warnings : [...source.warnings, warning]
  return { source: { ...source, warnings }, card, digest: digestOf(bytes), about, notes }
}

/**
 * The name of a card, trimmed, as a name for the library.
 * @throws CardError when it is not a valid name
 */
export function nameOf({ source }: { readonly source: Pick<CardSource, 'document'> }): string {
  // `Card.name` is empty for a long name, so the name is read from the document.
  const name = textIn(cardData(source.document).data, 'name')
  // Trimming 16 million blanks would take long, so a longer name is refused with its blanks.
  const trimmed = name.length > maxReadLength ? name.slice(0, maxReadLength) : name.trim()
  const problem = characterNameProblem(trimmed)
  if (problem !== undefined) throw new CardError('card_invalid', `The card's name ${problem}.`)
  if (name.length > maxReadLength) {
    throw new CardError('card_invalid', `The card's name has more than ${maxReadLength} characters. Shorten it.`)
  }
  return trimmed
}

/** Runs a job on the bytes of a card: here if they are JSON of at most 128 KiB, else in the pool. */
export function runOnCard<Input, Output>(
  work: Work,
  param: string,
  job: Job<Input, Output>,
  input: Input,
  bytes: Buffer,
): Output | Promise<Output> {
  const isSmall = bytes.length <= inlineBodyBytes && startsAsJson(bytes)
  return isSmall ? work.run(param, job, input) : work.runInPool(param, job, input)
}

/** Reads a card to play it. */
export const keepCardJob = defineJob(import.meta.url, 'keepCardJob', (bytes: Uint8Array): KeptCard => {
  const before = spentUnits()
  const { document, json } = readCardSource(bufferOf(bytes))
  const notes = emptyNotes()
  const { model } = readCard(document, notes)
  return keep(digestOf(bytes), json, notes, before, model)
})

/** What is read of a card in a folder. */
export interface FolderCard {
  readonly name: string
  readonly about: CardAbout
  readonly kept: KeptCard
}

/** Reads a card of a folder. */
export const folderCardJob = defineJob(import.meta.url, 'folderCardJob', (bytes: Uint8Array): FolderCard => {
  const before = spentUnits()
  const read = readCardBytes(bufferOf(bytes))
  const { source, card, digest, about, notes } = read
  return { name: nameOf(read), about, kept: keep(digest, source.json, notes, before, card.model) }
})

/** What is read of an uploaded card. */
export interface UploadedCard {
  /** SHA-256 of the bytes, 64 hex digits. */
  readonly digest: string
  readonly about: CardAbout
  readonly summary: CardSummary
}

/** Reads an uploaded card that is stored under a given name. */
export const uploadJob = defineJob(import.meta.url, 'uploadJob', (bytes: Uint8Array) =>
  uploaded(readCardBytes(bufferOf(bytes))),
)

/** Reads an uploaded card that is stored under its own name. */
export const namedUploadJob = defineJob(import.meta.url, 'namedUploadJob', (bytes: Uint8Array) => {
  const read = readCardBytes(bufferOf(bytes))
  return { name: nameOf(read), ...uploaded(read) }
})

function uploaded({ source, card, digest, about, notes }: ReadCard): UploadedCard {
  return { digest, about, summary: describeCard(card, source, notes) }
}

/** Reads a world book of the operator. */
export const keepBookJob = defineJob(import.meta.url, 'keepBookJob', (bytes: Uint8Array): KeptBook => {
  const before = spentUnits()
  const notes = emptyNotes()
  readLorebook(readJsonDocument(bufferOf(bytes)), notes)
  return keep(digestOf(bytes), bytes, notes, before)
})

function keep(
  digest: string,
  json: Uint8Array,
  { patterns }: ReadingNotes,
  unitsBefore: number,
  model?: string,
): KeptCard {
  const isSlow = spentUnits() - unitsBefore > inlineUnits
  const isHeavy = json.length > inlineBodyBytes || patterns.compiled > 0 || isSlow
  return { digest, document: sharedBytes(json), isHeavy, ...(model === undefined ? {} : { model }) }
}
