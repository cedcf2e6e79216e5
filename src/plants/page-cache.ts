import type { PlantsVersion } from './plant.ts'

/** A page of plants ready to send. Its text is a string, which Node writes together with the headers. */
export interface Page {
  readonly text: string
  /** The `Link` header, if more plants follow. */
  readonly link?: string
}

interface CachedPage {
  readonly version: PlantsVersion
  readonly page: Page
}

/** The most bytes of the pages of one generation. An estimate of the bytes that a page takes besides its text and its URL. */
const maxGenerationBytes = 32 * 1024 ** 2
const pageOverheadBytes = 512

/**
 * A cache of pages by account and URL. A page of another version is a miss, and the next `set` replaces this page. There are two
 * generations: when the recent generation is full, it replaces the older generation. When a page of the older generation is used,
 * the recent generation gets this page too. Without the cache, a page that is requested again would take 2.2 times the CPU time
 * (bench/figures.md).
 */
export class PageCache {
  #recent = new Map<string, CachedPage>()
  #older = new Map<string, CachedPage>()
  #recentBytes = 0
  #hits = 0
  #misses = 0

  /** Hits and misses of the cache. */
  get uses(): { readonly hits: number; readonly misses: number } {
    return { hits: this.#hits, misses: this.#misses }
  }

  /** The account's page for this URL, if it is cached in this version. */
  get(account: number, url: string, version: PlantsVersion): Page | undefined {
    const key = keyOf(account, url)
    const recent = this.#recent.get(key)
    const cached = recent ?? this.#older.get(key)
    if (cached?.version !== version) {
      this.#misses++
      return undefined
    }
    this.#hits++
    if (!recent) this.#add(key, cached)
    return cached.page
  }

  /** Caches a page. */
  set(account: number, url: string, version: PlantsVersion, page: Page): void {
    this.#add(keyOf(account, url), { version, page })
  }

  #add(key: string, cached: CachedPage): void {
    const bytes = sizeOf(key, cached)
    const replaced = this.#recent.get(key)
    if (replaced) this.#recentBytes -= sizeOf(key, replaced)
    if (this.#recentBytes + bytes > maxGenerationBytes) {
      this.#older = this.#recent
      this.#recent = new Map()
      this.#recentBytes = 0
    }
    this.#recent.set(key, cached)
    this.#recentBytes += bytes
  }
}

function keyOf(account: number, url: string): string {
  return `${account} ${url}`
}

/** The most bytes that a page takes: a string has one or two bytes for each character. */
function sizeOf(key: string, { page }: CachedPage): number {
  return (page.text.length + key.length) * 2 + pageOverheadBytes
}
