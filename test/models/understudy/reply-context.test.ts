import { expect, test } from 'vitest'
import type { Card } from '../../../src/characters/cards/card.ts'
import type { Steps } from '../../../src/work.ts'
import { counted } from '../../support/composed.ts'
import { cardOf } from '../../support/lore-cards.ts'
import { asking, textOf } from '../../support/mallow.ts'

/** The units of work of an answer of a character whose card has been read. */
async function unitsOf(question: string, card: Card): Promise<number> {
  await textOf(asking(question, {}, card))
  let sum = 0
  const work = {
    run<T>(_param: string, steps: Steps<T>): T {
      const { result, units } = counted(steps)
      sum += units.reduce((total, each) => total + each, 0)
      return result
    },
  }
  await textOf({ ...asking(question, {}, card), work })
  return sum
}

test('each letter of a text that may be said costs work', async () => {
  const lines = Array.from({ length: 9 }, (_, index) => `{{char}}: ${index}${' word'.repeat(700)}`)
  const one = await unitsOf('hi', cardOf({ name: 'Ida', mes_example: `<START>\n${lines[0]}` }))
  const all = await unitsOf('hi', cardOf({ name: 'Ida', mes_example: `<START>\n${lines.join('\n<START>\n')}` }))
  expect(all - one).toBeGreaterThan(8 * 3500)
})

test('each letter of a sentence that may be about the character costs work', async () => {
  const description = Array.from({ length: 18 }, (_, index) => `I am ${'x'.repeat(980)} of ${index}.`).join('\n')
  const card = cardOf({ name: 'Ida', description })
  expect((await unitsOf('how old are you?', card)) - (await unitsOf('how so?', card))).toBeGreaterThan(5 * 18_000)
})
