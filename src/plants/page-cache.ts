import type { PlantsVersion } from './plant.ts'

/** A page of plants as it goes out: as a string, which Node writes together with the head. */
export interface Page {
  readonly text: string
  /** The `Link` header, where more is to come. */
  readonly link?: string
}

/** How many bytes of pages a generation has, and about what a page costs besides its texts. */
const mostBytes = 32 * 1024 ** 2
const overhead = 512

/** How many characters of questions a generation has. */
const mostCharacters = 256 * 1024

/** The questions of late, in two generations. */
class Questions {
  #recent = new Set<string>()
  #older = new Set<string>()
  #characters = 0

  /** Tells whether a question was asked of late, and takes note of it. */
  isKnown(question: string): boolean {
    if (this.#recent.has(question)) return true
    if (this.#characters + question.length > mostCharacters) {
      this.#older = this.#recent
      this.#recent = new Set()
      this.#characters = 0
    }
    this.#recent.add(question)
    this.#characters += question.length
    return this.#older.has(question)
  }
}

/** The pages of one account that are of this version, by what was asked for. */
interface AccountPages {
  readonly version: PlantsVersion
  readonly pages: Map<string, Page>
  bytes: number
}

/**
 * Ready pages, for as long as nothing of what the account sees has changed: then all of its pages go at once, since a
 * page that nobody asks for again would stay until there is no room. There are two generations: when the recent one is
 * full, it takes the place of the older one, and of that there stays what has been asked for since. A page is kept from
 * the second time on that its question is asked: whoever walks through a list asks for each page once, and keeping those
 * would cost as much as a third of reading them.
 */
export class PageCache {
  #recent = new Map<number, AccountPages>()
  #older = new Map<number, AccountPages>()
  #recentBytes = 0
  readonly #questions = new Questions()
  #hits = 0
  #misses = 0

  /** How often a page was there when it was asked for, and how often not. */
  get uses(): { readonly hits: number; readonly misses: number } {
    return { hits: this.#hits, misses: this.#misses }
  }

  /** The account's page for this question, if it is of this version. */
  get(account: number, question: string, version: PlantsVersion): Page | undefined {
    const recent = pageIn(this.#recent, account, question, version)
    const older = recent ? undefined : pageIn(this.#older, account, question, version)
    if (older) this.#keep(account, question, version, older)
    const page = recent ?? older
    if (page) this.#hits++
    else this.#misses++
    return page
  }

  /** Takes a page that was asked for and not there, and keeps it if that was not the first time. */
  set(account: number, question: string, version: PlantsVersion, page: Page): void {
    if (this.#questions.isKnown(`${account} ${question}`)) this.#keep(account, question, version, page)
  }

  /** Keeps a page, and makes room for it. */
  #keep(account: number, question: string, version: PlantsVersion, page: Page): void {
    const bytes = sizeOf(question, page)
    if (bytes > mostBytes) return
    if (this.#recentBytes + bytes > mostBytes) {
      this.#older = this.#recent
      this.#recent = new Map()
      this.#recentBytes = 0
    }
    const kept = this.#accountPages(account, version)
    kept.pages.set(question, page)
    kept.bytes += bytes
    this.#recentBytes += bytes
  }

  /** The account's recent pages of this version; those of another one go. */
  #accountPages(account: number, version: PlantsVersion): AccountPages {
    const kept = this.#recent.get(account)
    if (kept?.version === version) return kept
    this.#recentBytes -= kept?.bytes ?? 0
    if (this.#older.get(account)?.version !== version) this.#older.delete(account)
    const empty = { version, pages: new Map<string, Page>(), bytes: 0 }
    this.#recent.set(account, empty)
    return empty
  }
}

function pageIn(
  generation: ReadonlyMap<number, AccountPages>,
  account: number,
  question: string,
  version: PlantsVersion,
): Page | undefined {
  const kept = generation.get(account)
  return kept?.version === version ? kept.pages.get(question) : undefined
}

/** At most what a page takes: a text has a byte to each character, or two. */
function sizeOf(question: string, { text }: Page): number {
  return (text.length + question.length) * 2 + overhead
}
