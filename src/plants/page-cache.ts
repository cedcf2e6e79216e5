import type { PlantsVersion } from './plant.ts'

/** A page of plants as it goes out: as a string, which Node writes together with the head. */
export interface Page {
  readonly text: string
  /** The `Link` header, where more is to come. */
  readonly link?: string
}

/** How many bytes of pages are kept, and about what a page costs besides its text. */
const mostBytes = 64 * 1024 ** 2
const overhead = 512

/** The pages of one account that are of this version, by what was asked for; the one used longest ago is the first. */
interface AccountPages {
  readonly version: PlantsVersion
  readonly pages: Map<string, Page>
}

/**
 * Ready pages, for as long as nothing of what the account sees has changed: then all of its pages go at once, since a
 * page that nobody asks for again would stay until there is no room.
 */
export class PageCache {
  /** The account that asked longest ago is the first. */
  readonly #accounts = new Map<number, AccountPages>()
  #bytes = 0
  #hits = 0
  #misses = 0

  /** How often a page was there when it was asked for, and how often not. */
  get uses(): { readonly hits: number; readonly misses: number } {
    return { hits: this.#hits, misses: this.#misses }
  }

  /** The account's page for this question, if it is of this version. */
  get(account: number, question: string, version: PlantsVersion): Page | undefined {
    const pages = this.#pagesOf(account, version)
    const page = pages.get(question)
    if (!page) {
      this.#misses++
      return undefined
    }
    this.#hits++
    pages.delete(question)
    pages.set(question, page)
    return page
  }

  /** Keeps a page, and makes room for it. */
  set(account: number, question: string, version: PlantsVersion, page: Page): void {
    const pages = this.#pagesOf(account, version)
    this.#drop(pages, question)
    if (sizeOf(page) > mostBytes) return
    pages.set(question, page)
    this.#bytes += sizeOf(page)
    for (const [oldest, kept] of this.#accounts) {
      for (const each of kept.pages.keys()) {
        if (this.#bytes <= mostBytes) return
        this.#drop(kept.pages, each)
      }
      if (oldest !== account) this.#accounts.delete(oldest)
    }
  }

  /** The account's pages of this version; those of another one go. */
  #pagesOf(account: number, version: PlantsVersion): Map<string, Page> {
    const kept = this.#accounts.get(account)
    this.#accounts.delete(account)
    if (kept?.version === version) {
      this.#accounts.set(account, kept)
      return kept.pages
    }
    for (const page of kept?.pages.values() ?? []) this.#bytes -= sizeOf(page)
    const pages = new Map<string, Page>()
    this.#accounts.set(account, { version, pages })
    return pages
  }

  #drop(pages: Map<string, Page>, question: string): void {
    const page = pages.get(question)
    if (!page) return
    pages.delete(question)
    this.#bytes -= sizeOf(page)
  }
}

/** At most what a page takes: a text has a byte to each character, or two. */
function sizeOf({ text }: Page): number {
  return text.length * 2 + overhead
}
