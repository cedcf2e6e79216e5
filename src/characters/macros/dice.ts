/** The most dice that one macro may roll. */
export const maxDice = 1000
const maxSides = 1e9
/** The most characters of a formula such as `2d6 + 1d4 - 1`. */
const maxFormulaLength = 100

/** A formula that is only the number of sides of one die; and a term of a formula, which is dice or a number. */
const sidesAlone = /^\d{1,10}$/
const term = /\s*(?:([+-])\s*)?(?:(\d{0,4})d(\d{1,10})|(\d{1,10}))/iy

/**
 * Rolls dice and adds them up: `6` and `d6` (one die), `2d6`, `2d6 + 1d4 - 1`.
 * @param random draws like `Math.random`
 * @returns the sum as a text; an empty text if the formula is invalid, rolls no dice, or rolls too many dice
 */
export function roll(dice: string, random: () => number): string {
  const written = dice.length > maxFormulaLength ? '' : dice.trim()
  const terms = termsOf(sidesAlone.test(written) ? `d${written}` : written)
  const thrown = terms.reduce((count, term) => count + (term.sides === undefined ? 0 : term.count), 0)
  const isValid = terms.every(
    ({ count, sides }) => sides === undefined || (count > 0 && sides > 0 && sides <= maxSides),
  )
  if (!isValid || thrown < 1 || thrown > maxDice) return ''
  return String(terms.reduce((sum, term) => sum + term.sign * thrownBy(term, random), 0))
}

interface Term {
  readonly sign: 1 | -1
  /** The number of dice with `sides` sides; without `sides`, the number itself. */
  readonly count: number
  readonly sides?: number
}

/** The terms of a formula; empty if the formula is invalid. */
function termsOf(dice: string): readonly Term[] {
  const terms: Term[] = []
  for (let place = 0; place < dice.length; place = term.lastIndex) {
    term.lastIndex = place
    const [written, sign, count, sides, number] = term.exec(dice) ?? []
    // Each term except the first needs a sign.
    if (written === undefined || (place > 0 && sign === undefined)) return []
    const signed = sign === '-' ? -1 : 1
    if (sides === undefined) terms.push({ sign: signed, count: Number(number) })
    else terms.push({ sign: signed, count: Number(count || 1), sides: Number(sides) })
  }
  return terms
}

function thrownBy({ count, sides }: Term, random: () => number): number {
  if (sides === undefined) return count
  let sum = 0
  for (let die = 0; die < count; die++) sum += 1 + Math.floor(random() * sides)
  return sum
}
