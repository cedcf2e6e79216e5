import type { TSchema } from '@sinclair/typebox'

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
