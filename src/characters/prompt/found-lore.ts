import { spend } from '../../work/fuel.ts'
import type { DropReason, Match, Scanned, ScanRequest, Speaker } from '../lore/book-scan.ts'
import { begunReply, Conversation } from '../lore/conversation.ts'
import { choosesPlace, type LoreEntry, type ScannedField } from '../lore/entry.ts'
import type { LoreKey } from '../lore/keys.ts'
import type { Lorebook } from '../lore/lorebook.ts'
import { decoratorContext, scanBooks } from '../lore/scan.ts'
import type { CardTexts, ExpansionContext } from './card-texts.ts'
import { type CompositionRequest, type CountTokens, type RequestTexts, TokenCounterNeeded } from './composition.ts'

/** An entry that matched, with its expanded body. It is in the prompt, unless it is dropped. */
export interface Lore extends Match {
  readonly body: string
  readonly book: string
  /** The index of the book: first the character's book, then the request's books, then the world books. */
  readonly bookIndex: number
}

/** An entry that is not in the prompt, and the reason. */
interface Dropped {
  readonly lore: Lore
  readonly reason: DropReason
}

/** The lore found in all books. */
export interface FoundLore {
  readonly kept: readonly Lore[]
  readonly dropped: readonly Dropped[]
}

/** Units of work to sort one entry, and to expand one entry besides its macros. */
const unitsOfSorting = 50
const unitsOfLore = 80

/** The request of a prompt, and the counter of tokens if the tokenizer is loaded. */
type LoreRequest = CompositionRequest & { readonly countTokens?: CountTokens | undefined }

const noLore: FoundLore = { kept: [], dropped: [] }
/** The most characters of a book's lore in one prompt, even if the book's budget allows more. */
const maxLoreLength = 1024 ** 2
/** The share of a known context window that a book without a `token_budget` may fill. */
const defaultBudgetShare = 0.25

/** The books of a prompt besides the character's book. */
export interface OtherBooks {
  /** The request's books. */
  readonly own: readonly Lorebook[]
  readonly world: readonly Lorebook[]
}

/**
 * Scans the character's book, the request's books and the world books. Each book has its own budget.
 * @param own expands the texts of the request's books
 */
export function findLore(
  texts: CardTexts,
  own: CardTexts,
  context: ExpansionContext,
  greeting: number | undefined,
  others: OtherBooks,
  request: LoreRequest,
): FoundLore {
  const { card } = texts
  const books = [...(card.book ? [card.book] : []), ...others.own, ...others.world]
  if (books.every(({ entries }) => entries.length === 0)) return noLore
  const deepest = Math.max(...books.map(({ maxScanDepth }) => maxScanDepth))
  const conversation = new Conversation(context.conversation, deepest)
  const readerOf = (book: Lorebook) => (others.own.includes(book) ? own : texts)
  const scannable = (book: Lorebook) => {
    const reader = readerOf(book)
    return {
      book,
      expandKey: (key: LoreKey) => reader.expandKey(key, context),
      recursionText: (entry: LoreEntry) => reader.recursionText(entry, context),
    }
  }
  const scan = scanOf(texts, context, conversation, greeting, request)
  const inBooks: FoundLore[] = []
  for (const together of scanGroups(books, others.own, request.texts)) {
    for (const scanned of scanBooks(scan, together.map(scannable))) {
      const { book } = scanned
      const named = book.name || (book === card.book ? texts.names.character : '')
      const found = expandAll(scanned, readerOf(book), context, named, books.indexOf(book))
      const within = keepWithinBudget(found.kept, book, request)
      inBooks.push({ kept: within.kept, dropped: [...found.dropped, ...within.dropped] })
    }
  }
  const kept = inBooks.flatMap((found) => found.kept)
  spend(kept.length * unitsOfSorting)
  return { kept: kept.sort(inOrder), dropped: inBooks.flatMap((found) => found.dropped) }
}

/** The inputs that all book scans of a request share. */
function scanOf(
  texts: CardTexts,
  context: ExpansionContext,
  conversation: Conversation,
  greeting: number | undefined,
  request: LoreRequest,
): ScanRequest {
  const { personality, scenario } = texts.card
  return {
    conversation,
    speaker: () => speakerOf(texts, request),
    context: decoratorContext(personality.trim() !== '', scenario.trim() !== '', greeting !== undefined),
    greeting,
    fieldText: (field) => fieldText(field, texts, context),
    random: context.random,
    seed: context.seed,
  }
}

/**
 * Groups of books that are scanned together. If the card is hidden from the caller, the request's books are scanned apart.
 * Otherwise their keys could reveal the other lore to the caller, and their inclusion groups could displace the other lore.
 */
function scanGroups(
  books: readonly Lorebook[],
  own: readonly Lorebook[],
  texts: RequestTexts | undefined,
): readonly (readonly Lorebook[])[] {
  if (!texts || texts.seesCard || own.length === 0) return [books]
  const brought = new Set(own)
  return [books.filter((book) => !brought.has(book)), [...brought]]
}

/** The names, the tags and the kind of reply with which the `Audience` of entries is compared. */
function speakerOf({ card, names }: CardTexts, { persona, messages }: CompositionRequest): Speaker {
  const lower = (texts: readonly string[]) => new Set(texts.map((text) => text.trim().toLowerCase()))
  return {
    names: lower([persona.name ?? '', card.name, names.character]),
    tags: lower(card.tags ?? []),
    reply: begunReply(messages) ? 'continue' : 'normal',
  }
}

/** A text in which keys are searched for, besides the messages: a text of the card, or the user's persona. */
function fieldText(field: ScannedField, texts: CardTexts, context: ExpansionContext): string {
  if (field === 'persona') return context.persona ?? ''
  const { card } = texts
  return texts.expand(field, field === 'depthNote' ? (card.depthNote?.prompt ?? '') : card[field], context)
}

/** Sorts lore by ascending insertion order. Entries with the same order stay in the order of books, and of their file. */
function inOrder(a: Lore, b: Lore): number {
  return a.entry.insertionOrder - b.entry.insertionOrder || a.bookIndex - b.bookIndex || a.entry.index - b.entry.index
}

function priorityOf({ entry, rules }: Lore): number {
  return rules.priority ?? entry.priority
}

/** The order in which entries are dropped: the lowest priority first. Among equal priorities, the last entry is dropped first. */
export function dropOrder(lore: readonly Lore[]): readonly Lore[] {
  return lore.toSorted(
    (a, b) => priorityOf(a) - priorityOf(b) || b.bookIndex - a.bookIndex || b.entry.index - a.entry.index,
  )
}

function expandAll(
  { matches, dropped }: Scanned,
  texts: CardTexts,
  context: ExpansionContext,
  book: string,
  bookIndex: number,
): FoundLore {
  const kept: Lore[] = []
  const nowhere: Dropped[] = []
  const missed: Dropped[] = []
  for (const { match, reason } of [...matches.map((match) => ({ match, reason: undefined })), ...dropped]) {
    const { entry, rules, keys } = match
    const body = texts.expand(entry, entry.body, context)
    const lore = { entry, rules, keys, body, book, bookIndex }
    if (reason !== undefined) missed.push({ lore, reason })
    else if (body !== '' && isNowhere(match)) nowhere.push({ lore, reason: 'position' })
    else if (body !== '') kept.push(lore)
    spend(unitsOfLore)
  }
  return { kept, dropped: [...missed, ...nowhere] }
}

/** Whether an entry has no place in prompts. */
function isNowhere({ entry, rules }: Match): boolean {
  return entry.place.section === 'nowhere' && !choosesPlace(rules)
}

function keepWithinBudget(lore: readonly Lore[], book: Lorebook, request: LoreRequest): FoundLore {
  const { contextWindow, countTokens } = request
  const share = contextWindow === undefined ? undefined : Math.floor(contextWindow * defaultBudgetShare)
  const budget = book.tokenBudget ?? share
  spend(lore.length * unitsOfSorting)
  const characters = dropOver(lore, maxLoreLength, 'limit', ({ body }) => body.length)
  if (budget === undefined) return characters
  // A token has at least one byte. So if the texts have at most `budget` bytes, their tokens need not be counted.
  const bytes = characters.kept.reduce((sum, { body }) => sum + Buffer.byteLength(body), 0)
  if (bytes <= budget) return characters
  if (!countTokens) throw new TokenCounterNeeded()
  const counts = new Map<Lore, number>()
  for (const each of characters.kept) counts.set(each, countTokens(each.body))
  spend(characters.kept.length * unitsOfSorting)
  const tokens = dropOver(characters.kept, budget, 'budget', (each) => counts.get(each) ?? 0)
  return { kept: tokens.kept, dropped: [...characters.dropped, ...tokens.dropped] }
}

/** Drops entries until the rest costs at most the budget. */
function dropOver(
  lore: readonly Lore[],
  budget: number,
  reason: DropReason,
  costOf: (lore: Lore) => number,
): FoundLore {
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
