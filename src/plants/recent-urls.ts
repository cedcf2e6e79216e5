/** Characters of the URLs of a generation. */
const maxUrlCharacters = 256 * 1024

/**
 * URLs that were requested lately, in two generations. A page is cached from the second request on: where each is cached at once, a
 * page from a random place takes 5 % more CPU time (docs/performance.md).
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
