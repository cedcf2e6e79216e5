import { spend } from '../../work/fuel.ts'

/** Units of work that a request may spend on the search for keys: half of all units of a request. */
const maxUnits = 200_000_000
/** The most Bloom filters of a request, with at most 64 KiB of bits each. */
const maxFilters = 64

/** A request's budget for the search for keys. When it is spent, the rest of the prompt can still be composed. */
export class ScanBudget {
  /** Units of work that are left. At 0 and below, every search finds nothing. */
  unitsLeft = maxUnits
  /** Bloom filters that may still be made. */
  filtersLeft = maxFilters

  /** Takes units from this budget and from that of the request. @throws OutOfFuel */
  spend(units: number): void {
    this.unitsLeft -= units
    spend(units)
  }
}

/** The index of the first occurrence of a text; -1 if it does not occur. Takes the cost of the search from the budget. */
export function placeOf(text: string, searched: string, budget: ScanBudget): number {
  // In the worst case, `indexOf` compares the key at each place that resembles the end of the key.
  budget.spend((searched.length * Math.max(3, text.length)) >> 6)
  return searched.indexOf(text)
}
