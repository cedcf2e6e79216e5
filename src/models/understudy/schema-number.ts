import { numberIn, type Schema } from './schema.ts'

/**
 * A number that fits a schema: 0 if 0 fits, otherwise the bound nearest to 0 (`between`). For integers and `multipleOf`, it is
 * the multiple nearest to that bound. Variants give different numbers, if so many numbers fit.
 */
export function numberFor(schema: Schema, isInteger: boolean, variant: number): number {
  const [low, isAboveLow] = bound(schema, 'minimum', 'exclusiveMinimum', Math.max, -Infinity)
  const [high, isBelowHigh] = bound(schema, 'maximum', 'exclusiveMaximum', Math.min, Infinity)
  const fits = (value: number) =>
    (isAboveLow ? value > low : value >= low) && (isBelowHigh ? value < high : value <= high)
  const step = stepOf(schema, isInteger)
  if (step === undefined) {
    const start = fits(0) ? 0 : between(low, isAboveLow, high, isBelowHigh)
    return variant === 0 ? start : vary(start, variant, fits, high, low)
  }
  const isPositive = fits(0) || low >= 0
  let count = fits(0) ? 0 : isPositive ? Math.ceil(low / step) : Math.floor(high / step)
  if (!fits(count * step)) count += isPositive ? 1 : -1
  const above = stepsTo(Math.floor(high / step), count, step, fits)
  const below = stepsTo(Math.ceil(low / step), count, step, fits)
  const index = Number.isFinite(above + below) ? variant % (above + below + 1) : variant
  return rounded((index <= above ? count + index : count - (index - above)) * step, step)
}

/** The number of steps from `count` to the last step that fits. `last` is this step or the step after it. */
function stepsTo(last: number, count: number, step: number, fits: (value: number) => boolean): number {
  const steps = Math.abs(last - count)
  if (!Number.isFinite(steps) || fits(rounded(last * step, step))) return steps
  return Math.max(0, steps - 1)
}

/** The tighter of two bounds, and whether it is excluded. In draft 4, `exclusiveMinimum: true` excludes the `minimum`. */
function bound(
  schema: Schema,
  inclusive: string,
  exclusive: string,
  tighter: (...values: number[]) => number,
  none: number,
): readonly [value: number, isOutside: boolean] {
  const including = numberIn(schema, inclusive) ?? none
  if (schema[exclusive] === true) return [including, true]
  const excluding = numberIn(schema, exclusive)
  if (excluding === undefined) return [including, false]
  return [tighter(including, excluding), tighter(including, excluding) === excluding]
}

/** The distance between two numbers that fit; undefined if the schema asks for no steps. */
function stepOf(schema: Schema, isInteger: boolean): number | undefined {
  const multiple = numberIn(schema, 'multipleOf')
  if (multiple === undefined || !(multiple > 0)) return isInteger ? 1 : undefined
  if (!isInteger) return multiple
  for (let factor = 1; factor <= 1000; factor += 1) {
    if (Number.isInteger(multiple * factor)) return multiple * factor
  }
  return multiple
}

/**
 * A number between two bounds on the same side of 0: the bound nearest to 0. If that bound is excluded, the number is the middle
 * of both bounds, or 1 beyond that bound if there is no other bound.
 */
function between(low: number, isAboveLow: boolean, high: number, isBelowHigh: boolean): number {
  if (low >= 0) {
    if (!isAboveLow) return low
    return Number.isFinite(high) ? low + (high - low) / 2 : low + 1
  }
  if (!isBelowHigh) return high
  return Number.isFinite(low) ? high - (high - low) / 2 : high - 1
}

/**
 * Adds the variant, or subtracts it if the sum does not fit. If neither fits, moves from `start` towards the farther bound, by a
 * different distance for each variant.
 */
function vary(start: number, variant: number, fits: (value: number) => boolean, high: number, low: number): number {
  if (fits(start + variant)) return start + variant
  if (fits(start - variant)) return start - variant
  const end = high - start > start - low ? high : low
  return start + (end - start) / (variant + 1)
}

/** Removes errors of binary fractions: 3 * 0.1 must be 0.3. */
function rounded(value: number, step: number): number {
  const decimals = /\.(\d+)$/.exec(String(step))?.[1]?.length ?? 0
  return decimals > 0 ? Number(value.toFixed(decimals)) : value + 0
}
