import { ApiError } from '../errors.ts'

/** Units of 5 to 10 ms on the main thread. An honest small request needs at most about half of them. */
export const inlineUnits = 1_000_000

/** The budget of one request in all, about 4 s. This is twice the work of a chat of 8 MiB. */
export const maxUnits = 400_000_000

/** Any amount that V8 keeps as a small integer, so that counting stores no new object. */
const outsideUnits = 2 ** 30

/** Work is synchronous, so one budget at a time is enough. */
let isRunning = false
let budget = 0
let left = outsideUnits

/** The error of work that has spent its budget of units. */
export class OutOfFuel extends Error {
  override readonly name = 'OutOfFuel'
}

/**
 * Spends units of the budget of the running work. Outside of `withFuel` it does nothing.
 * @param units a whole number, about 10 ns each: one unit is one parsed character, or a hundred copied characters
 * @throws OutOfFuel, and again at each later call of the same work
 */
export function spend(units: number): void {
  left -= units
  // The comparison is also false for NaN, so a wrong count of units ends the work instead of the counting.
  if (!(left >= 0)) endOfBudget()
}

function endOfBudget(): void {
  if (isRunning) throw new OutOfFuel('the budget of units is spent')
  left = outsideUnits
}

/**
 * Runs a plain synchronous function under a budget. Budgets nest: an inner run has a budget of its own, and the outer budget
 * continues afterwards.
 * @throws OutOfFuel if the budget was exceeded, also if the function caught the error, because its result may be incomplete
 */
export function withFuel<T>(units: number, run: () => T): T {
  const outer = { isRunning, budget, left }
  isRunning = true
  budget = units
  left = units
  try {
    const result = run()
    if (left >= 0) return result
  } catch (error) {
    if (left >= 0) throw error
  } finally {
    isRunning = outer.isRunning
    budget = outer.budget
    left = outer.left
  }
  throw new OutOfFuel('the budget of units is spent')
}

/** The units that the running work has spent so far. 0 outside of `withFuel`. */
export function spentUnits(): number {
  return isRunning ? budget - left : 0
}

/** The 400 of a request that has spent its budget of units. @param param the field of the request that causes the work */
export function tooComplex(param: string): ApiError {
  const message = `"${param}" causes more work than one request may cause. Send a smaller or simpler one.`
  return new ApiError(400, 'too_complex', message, { param })
}
