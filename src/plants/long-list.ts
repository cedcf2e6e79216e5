import type { PlantPage, PlantQuery } from './plant.ts'

/** With SQLite, reading a page of this size blocks the event loop for a tenth of a millisecond. */
const plantsPerPage = 500

/**
 * Reads the pages of a long list, one after the other.
 * @param limit the highest number of plants; the last page says whether more follow
 * @param read reads at most `length` plants
 */
export async function* pagesOf(
  query: PlantQuery,
  limit: number,
  read: (from: PlantQuery, length: number) => PlantPage | Promise<PlantPage>,
): AsyncIterable<PlantPage> {
  let from: PlantQuery | undefined = query
  for (let left = limit; from && left > 0; left -= plantsPerPage) {
    const page: PlantPage = await read(from, Math.min(left, plantsPerPage))
    yield page
    from = page.last && { ...query, after: page.last }
  }
}
