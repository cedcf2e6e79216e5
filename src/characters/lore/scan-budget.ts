/** Units of work that a request may spend on the search for keys: some 2 s, half of its whole budget. */
const maxUnits = 200_000_000
/** Bloom filters that a request may have in memory, of at most 64 kB each. */
const maxFilters = 64
/** Units of work after which a step ends. */
const unitsOfStep = 2000

/** The budget of a request for the search for keys, so that no card can block the service. */
export class ScanBudget {
  /** Units of work. When none are left, every search finds nothing. */
  unitsLeft = maxUnits
  /** Bloom filters that may still be made. */
  filtersLeft = maxFilters
  #unitsLeftBefore = maxUnits

  /** Whether the current step has spent its units, so that it should end. */
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

/** The index of the first occurrence of a text, for the units of work that this takes; -1 for none. */
export function placeOf(text: string, searched: string, budget: ScanBudget): number {
  // `indexOf` compares again at each place that resembles the key's end.
  budget.unitsLeft -= (searched.length * Math.max(3, text.length)) >> 6
  return searched.indexOf(text)
}
