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

/** Ready pages by what was asked for, each for as long as nothing that it shows has changed; the oldest used goes first. */
export class PageCache {
  readonly #pages = new Map<string, { readonly version: PlantsVersion; readonly page: Page }>()
  #bytes = 0

  /** The page for this question, if it is of this version. */
  get(question: string, version: PlantsVersion): Page | undefined {
    const kept = this.#pages.get(question)
    if (!kept) return undefined
    this.#drop(question)
    if (kept.version !== version) return undefined
    this.#keep(question, version, kept.page)
    return kept.page
  }

  /** Keeps a page, and makes room for it. */
  set(question: string, version: PlantsVersion, page: Page): void {
    this.#drop(question)
    if (sizeOf(page) > mostBytes) return
    this.#keep(question, version, page)
    for (const oldest of this.#pages.keys()) {
      if (this.#bytes <= mostBytes) break
      this.#drop(oldest)
    }
  }

  #keep(question: string, version: PlantsVersion, page: Page): void {
    this.#pages.set(question, { version, page })
    this.#bytes += sizeOf(page)
  }

  #drop(question: string): void {
    const kept = this.#pages.get(question)
    if (!kept) return
    this.#pages.delete(question)
    this.#bytes -= sizeOf(kept.page)
  }
}

/** At most what a page takes: a text has a byte to each character, or two. */
function sizeOf({ text }: Page): number {
  return text.length * 2 + overhead
}
