import type { PlantsVersion } from './plant.ts'

/** A page of plants ready to send. Its text is a string, which Node writes together with the headers. */
export interface Page {
  readonly text: string
  /** The `Link` header, if more plants follow. */
  readonly link?: string
}

/** The most bytes of the pages of one generation. An estimate of the bytes that a page takes besides its text and its URL. */
const maxGenerationBytes = 32 * 1024 ** 2
const pageOverheadBytes = 512

/** The pages of one account in one version, by URL. */
interface AccountPages {
  readonly version: PlantsVersion
  readonly pages: Map<string, Page>
  bytes: number
}

/**
 * A cache of pages. When `set` gets a page with a new version, it drops the account's pages of other versions. Without this step,
 * outdated pages would stay until the cache is full. There are two generations: when the recent generation is full, it replaces
 * the older generation. When a page of the older generation is used, the recent generation gets this page too.
 * Without the cache, a page that is requested again would take 2.2 times the CPU time (docs/performance.md).
 */
export class PageCache {
  #recent = new Map<number, AccountPages>()
  #older = new Map<number, AccountPages>()
  #recentBytes = 0
  #hits = 0
  #misses = 0

  /** Hits and misses of the cache. */
  get uses(): { readonly hits: number; readonly misses: number } {
    return { hits: this.#hits, misses: this.#misses }
  }

  /** The account's page for this URL, if it is cached in this version. */
  get(account: number, url: string, version: PlantsVersion): Page | undefined {
    const recent = pageIn(this.#recent, account, url, version)
    const older = recent ? undefined : pageIn(this.#older, account, url, version)
    if (older) this.set(account, url, version, older)
    const page = recent ?? older
    if (page) this.#hits++
    else this.#misses++
    return page
  }

  /** Caches a page, unless the page is larger than a generation. */
  set(account: number, url: string, version: PlantsVersion, page: Page): void {
    const bytes = sizeOf(url, page)
    if (bytes > maxGenerationBytes) return
    if (this.#recentBytes + bytes > maxGenerationBytes) {
      this.#older = this.#recent
      this.#recent = new Map()
      this.#recentBytes = 0
    }
    const kept = this.#accountPages(account, version)
    kept.pages.set(url, page)
    kept.bytes += bytes
    this.#recentBytes += bytes
  }

  /** The account's recent pages of this version; pages of other versions are dropped. */
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
  url: string,
  version: PlantsVersion,
): Page | undefined {
  const kept = generation.get(account)
  return kept?.version === version ? kept.pages.get(url) : undefined
}

/** The most bytes that a page takes: a string has one or two bytes for each character. */
function sizeOf(url: string, { text }: Page): number {
  return (text.length + url.length) * 2 + pageOverheadBytes
}
