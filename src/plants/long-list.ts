import type { PlantPage, PlantQuery } from './plant.ts'

/** How many plants one page of a long list has: over SQLite it holds the event loop for a tenth of a millisecond. */
const plantsPerPage = 500

/**
 * The pages of a long list, one after the other.
 * @param limit how many plants they have at most; where more are to come, the last page says so
 * @param read gives at most so many plants
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
