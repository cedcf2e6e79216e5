import type { PagesOf, PlantPage } from '../../src/plants/plant.ts'
import type { Plant } from '../../src/plants/schemas.ts'

/** The plants that a page shows. */
export function plantsOf({ json }: PlantPage): readonly Plant[] {
  return JSON.parse(json)
}

/** The names of the plants that a page shows. */
export function namesOf(page: PlantPage): readonly string[] {
  return plantsOf(page).map(({ name }) => name)
}

/** Reads all pages of a long list once. */
export function eachPage(pages: PagesOf): AsyncIterable<PlantPage> {
  return pages()
}
