import { describe, expect, test } from 'vitest'
import { CardReader } from '../../../src/models/understudy/card-passages.ts'
import { atOnce, counted } from '../../support/composed.ts'
import { cardOf, cardWithLore } from '../../support/lore-cards.ts'

describe('the material of a card', () => {
  test('examples with indented lines, full-width colons and other names for the user', () => {
    const examples = 'User: Tea?\nIda： Ginger.\n\n \t**you**: Cake?\nIda: Plum.\n\u3000PLAYER: Pie?\nIda: Apple.'
    const { passages } = atOnce(new CardReader(cardOf({ name: 'Ida', mes_example: examples })).material())
    expect(passages.map(({ cue, answer }) => `${cue} ${answer}`)).toEqual([
      'Tea? Ginger.',
      'Cake? Plum.',
      'Pie? Apple.',
    ])
  })

  test('texts of line separators are read in time', () => {
    const entries = Array.from({ length: 400 }, (_, index) => ({ content: `a${'\u2028'.repeat(15_990)}${index}` }))
    const card = cardWithLore(entries, {}, { name: 'Ida', mes_example: `a${'\u2028'.repeat(99_998)}b` })
    expect(atOnce(new CardReader(card).material()).blocks).toBe(1)
  })

  test('a line in brackets is a trait', () => {
    const card = cardOf({ name: 'Ida', description: '[Age: 24) ]\n- ( Likes: rain )\n{Loves: tea}>' })
    const { passages } = atOnce(new CardReader(card).material())
    expect(passages.map(({ answer }) => answer)).toEqual(['I am 24 years old.', 'I like rain.', 'I love tea.'])
  })

  test('actions are looked for in each text separately, until there are enough', () => {
    const letters = 70_000
    const cost = (greeting: string) => {
      const card = cardOf({
        name: 'Ida',
        alternate_greetings: Array.from({ length: 9 }, (_, index) => index + greeting),
      })
      const { result, units } = counted(new CardReader(card).material())
      return { ...result, units: units.reduce((sum, each) => sum + each, 0) }
    }
    const many = cost(
      Array.from({ length: 60 }, (_, index) => `*nods ${index} times* `)
        .join('')
        .padEnd(letters, 'x'),
    )
    const one = cost('*nods* '.repeat(letters / 7))
    expect(many.actions).toHaveLength(50)
    expect(one.actions).toEqual(['*nods*'])
    expect(one.units - many.units).toBeGreaterThan(8 * letters)
  })
})
