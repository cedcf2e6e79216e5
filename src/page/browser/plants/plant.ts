/** A plant as the service sends it. */
export interface SentPlant {
  /** Of one's own plants alone: those without it are shared by other accounts. */
  readonly id?: number
  readonly name: string
  readonly tag?: string
}

/** A plant as the page keeps it. */
export interface Plant extends SentPlant {
  /** Tells plants apart: shared ones have no id. */
  readonly key: number
  /** The name as the search compares it. */
  readonly searched: string
}

let count = 0

/** A plant for the page, from one that the service sent. */
export function toPlant(sent: SentPlant): Plant {
  return { ...sent, key: ++count, searched: searchable(sent.name) }
}

/** A text as the search compares it: without regard to case, and to how a character is put together. */
export function searchable(text: string): string {
  return text.normalize('NFKC').toLowerCase()
}

/** A name in a sentence; a direction of writing that it sets does not reach beyond it. */
export function quoted(name: string): string {
  const letters = [...name]
  const short = letters.length > 60 ? `${letters.slice(0, 60).join('')}…` : name
  return `“\u2068${short}\u2069”`
}

/**
 * A list with one plant more, where the service would list it: one's own come first, in the order of their ids.
 * @param isWhole whether there is nothing after the list
 * @returns undefined where its place is after the list, which goes on
 */
export function withPlant(plants: readonly Plant[], plant: Plant, isWhole: boolean): readonly Plant[] | undefined {
  const { id: added = 0 } = plant
  const place = plants.findIndex(({ id }) => id === undefined || id >= added)
  if (place === -1) return isWhole ? [...plants, plant] : undefined
  if (plants[place]?.id === added) return plants
  return [...plants.slice(0, place), plant, ...plants.slice(place)]
}
