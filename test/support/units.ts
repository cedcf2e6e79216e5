import { maxUnits, spentUnits, withFuel } from '../../src/work/fuel.ts'

/** The units of work that a function spends. */
export function unitsOf(run: () => unknown): number {
  return withFuel(maxUnits, () => {
    run()
    return spentUnits()
  })
}
