/** Dice that one macro may throw. */
export const mostDice = 1000
const mostSides = 1e9

/** The sum of some dice (`6`, `d6`, `2d6`); empty when it is no such thing. */
export function roll(dice: string, random: () => number): string {
  const match = /^(?:(\d{0,4})d)?(\d{1,10})$/i.exec(dice.trim())
  const count = Number(match?.[1] || 1)
  const sides = Number(match?.[2])
  if (!match || count < 1 || count > mostDice || !(sides >= 1 && sides <= mostSides)) return ''
  let sum = 0
  for (let die = 0; die < count; die++) sum += 1 + Math.floor(random() * sides)
  return String(sum)
}
