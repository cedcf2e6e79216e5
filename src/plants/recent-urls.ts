/** The most characters of the URLs of a generation. */
const maxUrlCharacters = 256 * 1024

/**
 * URLs that were requested lately, in two generations. A page is cached at its second request. If each page were cached at its
 * first request, a page after a random id would take 5 % more CPU time (docs/performance.md).
 */
export class RecentUrls {
  #recent = new Set<string>()
  #older = new Set<string>()
  #characters = 0

  /** Adds a URL. @returns whether it was requested lately */
  add(url: string): boolean {
    if (this.#recent.has(url)) return true
    if (this.#characters + url.length > maxUrlCharacters) {
      this.#older = this.#recent
      this.#recent = new Set()
      this.#characters = 0
    }
    this.#recent.add(url)
    this.#characters += url.length
    return this.#older.has(url)
  }
}
