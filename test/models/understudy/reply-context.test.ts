import { expect, test } from 'vitest'
import type { KeptCard } from '../../../src/characters/cards/kept-card.ts'
import { understudyJob } from '../../../src/models/understudy/reply.ts'
import { inputOf } from '../../../src/models/understudy/reply-input.ts'
import { keptCard } from '../../support/kept-cards.ts'
import { asking } from '../../support/mallow.ts'
import { unitsOf } from '../../support/units.ts'

/** The units of work of an answer of a character whose card has been read. */
function unitsOfAnswer(question: string, card: KeptCard): number {
  const input = inputOf(asking(question, {}, card), false)
  understudyJob.run(input)
  return unitsOf(() => understudyJob.run(input))
}

test('each letter of a text that may be said costs work', () => {
  const lines = Array.from({ length: 9 }, (_, index) => `{{char}}: ${index}${' word'.repeat(700)}`)
  const one = unitsOfAnswer('hi', keptCard({ name: 'Ida', mes_example: `<START>\n${lines[0]}` }))
  const all = unitsOfAnswer('hi', keptCard({ name: 'Ida', mes_example: `<START>\n${lines.join('\n<START>\n')}` }))
  expect(all - one).toBeGreaterThan(8 * 3500)
})

test('each letter of a sentence that may be about the character costs work', () => {
  const description = Array.from({ length: 18 }, (_, index) => `I am ${'x'.repeat(980)} of ${index}.`).join('\n')
  const card = keptCard({ name: 'Ida', description })
  expect(unitsOfAnswer('how old are you?', card) - unitsOfAnswer('how so?', card)).toBeGreaterThan(5 * 18_000)
})
