/** A plant of the service. */
export interface SentPlant {
  /** Missing for plants that other accounts share. */
  readonly id?: number
  readonly name: string
  readonly tag?: string
}

/** A plant of the page. */
export interface Plant extends SentPlant {
  /** Identifies the plant in the page, since shared plants have no id. */
  readonly key: number
  /** The name in the form that the search compares. */
  readonly searched: string
}

let count = 0

/** Makes a plant of the page from a plant of the service. */
export function toPlant(sent: SentPlant): Plant {
  return { ...sent, key: ++count, searched: searchable(sent.name) }
}

/** A text in the form that the search compares: lower case, in Unicode's form NFKC. */
export function searchable(text: string): string {
  return text.normalize('NFKC').toLowerCase()
}

/** A name in quotation marks, for a sentence. The writing direction is isolated, and a long name is cut. */
export function quoted(name: string): string {
  const letters = [...name]
  const short = letters.length > 60 ? `${letters.slice(0, 60).join('')}…` : name
  return `“\u2068${short}\u2069”`
}

/**
 * Inserts a plant into the list at its place in the service's order: the account's own plants come first, in the order of their
 * ids.
 * @param isWhole whether the list has no further pages
 * @returns undefined if the place is on a further page
 */
export function withPlant(plants: readonly Plant[], plant: Plant, isWhole: boolean): readonly Plant[] | undefined {
  const { id: added = 0 } = plant
  const place = plants.findIndex(({ id }) => id === undefined || id >= added)
  if (place === -1) return isWhole ? [...plants, plant] : undefined
  if (plants[place]?.id === added) return plants
  return [...plants.slice(0, place), plant, ...plants.slice(place)]
}
