import type { TSchema } from '@sinclair/typebox'
import type { DetailedPlant } from './details.ts'
import { toReply } from './plant.ts'
import type { Included } from './schemas.ts'

/** The names of `include` that another room answers: `app.ts` joins it with plants. */
export type IncludedName = 'care' | 'due'

/** Answers `include=care,due` for plants. */
export interface Includes {
  /** The schema of each field that the answer adds to a plant. */
  readonly schemas: Readonly<Record<IncludedName, TSchema>>
  /**
   * Reads the fields for plants that the caller may see: own plants, and plants of other accounts.
   * @param caller the account that asks
   * @param plants at most 1,000 plants
   * @returns the fields to add to each plant, in the order of the plants
   */
  read(
    caller: number,
    plants: readonly { readonly account: number; readonly id: number }[],
    names: ReadonlySet<IncludedName>,
  ): Promise<readonly Readonly<Partial<Record<IncludedName, unknown>>>[]>
}

/**
 * The plants as a caller sees them, with everything that `include` names.
 * @param includes answers `care` and `due`; without it they add nothing
 */
export async function shownPlants(
  includes: Includes | undefined,
  caller: number,
  plants: readonly DetailedPlant[],
  included: ReadonlySet<Included>,
): Promise<readonly object[]> {
  const names = new Set((['care', 'due'] as const).filter((name) => included.has(name)))
  const others = includes && names.size > 0 ? await includes.read(caller, plants, names) : []
  return plants.map((plant, index) => {
    const { account, id: _id, name: _name, tag: _tag, version: _version, ...details } = plant
    const shown = toReply(plant, included.has('id') && account === caller)
    return { ...shown, ...(included.has('details') && details), ...others[index] }
  })
}
