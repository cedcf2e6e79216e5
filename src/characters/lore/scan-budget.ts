/** Units of work that a request may spend on the search for keys: some 2 s, half of all units of a request. */
const maxUnits = 200_000_000
/** The most Bloom filters of a request, with at most 64 KiB of bits each. */
const maxFilters = 64
/** Units of work after which a step ends. */
const unitsOfStep = 2000

/** A request's budget for the search for keys, so that no card can block the service. */
export class ScanBudget {
  /** Units of work that are left. At 0 and below, every search finds nothing. */
  unitsLeft = maxUnits
  /** Bloom filters that may still be made. */
  filtersLeft = maxFilters
  #unitsLeftBefore = maxUnits

  /** Whether the current step has spent its units and should end. */
  get isStepOver(): boolean {
    return this.#unitsLeftBefore - this.unitsLeft >= unitsOfStep
  }

  /** The units spent since the last call. */
  takeSpentUnits(): number {
    const spent = this.#unitsLeftBefore - this.unitsLeft
    this.#unitsLeftBefore = this.unitsLeft
    return spent
  }
}

/** The index of the first occurrence of a text; -1 if it does not occur. Takes the cost of the search from the budget. */
export function placeOf(text: string, searched: string, budget: ScanBudget): number {
  // In the worst case, `indexOf` compares the key at each place that resembles the end of the key.
  budget.unitsLeft -= (searched.length * Math.max(3, text.length)) >> 6
  return searched.indexOf(text)
}
