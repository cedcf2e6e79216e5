import type { Steps } from '../../work.ts'
import type { Speaker } from '../lore/audience.ts'
import type { DropReason, Match, Scanned, ScanRequest } from '../lore/book-scan.ts'
import { begunReply, type Conversation } from '../lore/conversation.ts'
import type { LoreEntry, ScannedField } from '../lore/entry.ts'
import type { Lorebook } from '../lore/lorebook.ts'
import { decoratorContext, maxScanDepth, scanBooks } from '../lore/scan.ts'
import type { LoreKey } from '../lore/scanned-text.ts'
import type { CardTexts, Run } from './card-texts.ts'
import { type CompositionRequest, CountNeeded, type RequestTexts } from './composition.ts'

/** An entry that is in the prompt, unless something has to give way. */
export interface Lore extends Match {
  readonly body: string
  readonly book: string
  /** The character's book comes before the world's. */
  readonly bookIndex: number
}

/** An entry that is not, and why. */
interface Dropped {
  readonly lore: Lore
  readonly reason: DropReason
}

/** What was found in all books. */
export interface FoundLore {
  readonly kept: readonly Lore[]
  readonly dropped: readonly Dropped[]
}

/** Units of work of bringing one entry into order, and of expanding one beside its macros; and of how many a step is. */
const unitsOfSorting = 50
const unitsOfLore = 80
const lorePerStep = 25

const nothing: FoundLore = { kept: [], dropped: [] }
/** Characters of lore in one prompt, whatever the books allow. */
const maxLoreLength = 1024 ** 2
/** How much of a known context a book may fill that does not say. */
const standardShare = 0.25

/**
 * Scans the character's book, the request's and the world's together, each within its own budget.
 * @param own expands what the request's books have
 */
export function* findLore(
  texts: CardTexts,
  own: CardTexts,
  run: Run,
  conversation: Conversation,
  greeting: number | undefined,
  request: CompositionRequest,
): Steps<FoundLore> {
  const { card } = texts
  const ownBooks = request.texts?.books ?? []
  const books = [...(card.book ? [card.book] : []), ...ownBooks, ...(request.worldBooks ?? [])]
  if (books.every(({ entries }) => entries.length === 0)) return nothing
  yield* conversation.prepare(Math.max(...books.map(cachedDepth)))
  const readerOf = (book: Lorebook) => (ownBooks.includes(book) ? own : texts)
  const scannable = (book: Lorebook) => {
    const reader = readerOf(book)
    return {
      book,
      expandKey: (key: LoreKey) => reader.expandKey(key, run),
      recursionText: (entry: LoreEntry) => reader.recursionText(entry, run),
    }
  }
  const scan = scanOf(texts, run, conversation, greeting, request)
  const inBooks: FoundLore[] = []
  for (const together of scannedTogether(books, request.texts)) {
    for (const scanned of yield* scanBooks(scan, together.map(scannable))) {
      const { book } = scanned
      const named = book.name || (book === card.book ? texts.names.character : '')
      const found = yield* expandAll(scanned, readerOf(book), run, named, books.indexOf(book))
      const within = yield* withinBudget(found.kept, book, request)
      inBooks.push({ kept: within.kept, dropped: [...found.dropped, ...within.dropped] })
    }
  }
  const kept = inBooks.flatMap((found) => found.kept)
  yield kept.length * unitsOfSorting
  return { kept: kept.sort(inOrder), dropped: inBooks.flatMap((found) => found.dropped) }
}

/** What all books of a request are scanned with. */
function scanOf(
  texts: CardTexts,
  run: Run,
  conversation: Conversation,
  greeting: number | undefined,
  request: CompositionRequest,
): ScanRequest {
  const { personality, scenario } = texts.card
  let speaker: Speaker | undefined
  return {
    conversation,
    speaker: () => (speaker ??= speakerOf(texts, request)),
    context: decoratorContext(personality.trim() !== '', scenario.trim() !== '', greeting !== undefined),
    greeting,
    fieldText: (field) => fieldText(field, texts, run),
    random: run.random,
    seed: run.seed,
  }
}

/**
 * The books whose lore calls for each other's: all, but the request's where the card is hidden from the caller, who could
 * find out by their keys what other lore says, and push it aside by their groups.
 */
function scannedTogether(books: readonly Lorebook[], own: RequestTexts | undefined): readonly (readonly Lorebook[])[] {
  if (!own || own.seesCard || own.books.length === 0) return [books]
  const brought = new Set(own.books)
  return [books.filter((book) => !brought.has(book)), [...brought]]
}

/** Who speaks, as books that are not for all characters name it: by the card's names, or by the one it is kept under. */
function speakerOf({ card, names }: CardTexts, { persona, messages }: CompositionRequest): Speaker {
  const lower = (texts: readonly string[]) => new Set(texts.map((text) => text.trim().toLowerCase()))
  return {
    names: lower([persona.name ?? '', card.name, names.character]),
    tags: lower(card.tags ?? []),
    reply: begunReply(messages) ? 'continue' : 'normal',
  }
}

/** A text of the card, or the user's persona, in which keys are looked for. */
function* fieldText(field: ScannedField, texts: CardTexts, run: Run): Steps<string> {
  if (field === 'persona') return run.persona ?? ''
  const { card } = texts
  return yield* texts.expand(field, field === 'depthNote' ? (card.depthNote?.prompt ?? '') : card[field], run)
}

const depths = new WeakMap<Lorebook, number>()

function cachedDepth(book: Lorebook): number {
  const known = depths.get(book)
  if (known !== undefined) return known
  const depth = maxScanDepth(book)
  depths.set(book, depth)
  return depth
}

/** Ascending insertion order, then as the file has it. */
function inOrder(a: Lore, b: Lore): number {
  return a.entry.insertionOrder - b.entry.insertionOrder || a.bookIndex - b.bookIndex || a.entry.index - b.entry.index
}

/** Lowest priority first, of equals the later in the file: what goes first when there is not room for all. */
export function dropOrder(lore: readonly Lore[]): readonly Lore[] {
  return lore.toSorted(
    (a, b) => a.entry.priority - b.entry.priority || b.bookIndex - a.bookIndex || b.entry.index - a.entry.index,
  )
}

function* expandAll(
  { matches, dropped }: Scanned,
  texts: CardTexts,
  run: Run,
  book: string,
  bookIndex: number,
): Steps<FoundLore> {
  const kept: Lore[] = []
  const nowhere: Dropped[] = []
  const missed: Dropped[] = []
  let expanded = 0
  // One generator for all entries: one for each would cost more than most of their texts.
  for (const { match, reason } of [...matches.map((match) => ({ match, reason: undefined })), ...dropped]) {
    const { entry, rules, keys } = match
    const body = texts.kept(entry, run) ?? (yield* texts.expand(entry, entry.body, run))
    const lore = { entry, rules, keys, body, book, bookIndex }
    if (reason !== undefined) missed.push({ lore, reason })
    else if (body !== '' && isNowhere(match)) nowhere.push({ lore, reason: 'position' })
    else if (body !== '') kept.push(lore)
    if (++expanded % lorePerStep === 0) yield lorePerStep * unitsOfLore
  }
  return { kept, dropped: [...missed, ...nowhere] }
}

/** Whether an entry has no place in a prompt. */
function isNowhere({ entry, rules }: Match): boolean {
  return entry.place.section === 'nowhere' && rules.position === undefined && rules.depth === undefined
}

function* withinBudget(lore: readonly Lore[], book: Lorebook, request: CompositionRequest): Steps<FoundLore> {
  const { contextWindow, countSteps } = request
  const share = contextWindow === undefined ? undefined : Math.floor(contextWindow * standardShare)
  const budget = book.tokenBudget ?? share
  yield lore.length * unitsOfSorting
  const characters = within(lore, maxLoreLength, 'limit', ({ body }) => body.length)
  if (budget === undefined) return characters
  // A token is at least a byte, so what is short enough need not be counted.
  const bytes = characters.kept.reduce((sum, { body }) => sum + Buffer.byteLength(body), 0)
  if (bytes <= budget) return characters
  if (!countSteps) throw new CountNeeded()
  const counts = new Map<Lore, number>()
  for (const each of characters.kept) counts.set(each, yield* countSteps(each.body))
  yield characters.kept.length * unitsOfSorting
  const tokens = within(characters.kept, budget, 'budget', (each) => counts.get(each) ?? 0)
  return { kept: tokens.kept, dropped: [...characters.dropped, ...tokens.dropped] }
}

/** Drops until the rest costs no more than the budget. */
function within(lore: readonly Lore[], budget: number, reason: DropReason, costOf: (lore: Lore) => number): FoundLore {
  let cost = lore.reduce((sum, each) => sum + costOf(each), 0)
  if (cost <= budget) return { kept: lore, dropped: [] }
  const gone = new Set<Lore>()
  const ordered = dropOrder(lore)
  const isFirst = ({ rules }: Lore) => rules.ignoreOnMaxContext === true
  for (const each of [...ordered.filter(isFirst), ...ordered.filter((other) => !isFirst(other))]) {
    if (cost <= budget) break
    gone.add(each)
    cost -= costOf(each)
  }
  return {
    kept: lore.filter((each) => !gone.has(each)),
    dropped: [...gone].map((each) => ({ lore: each, reason })),
  }
}
