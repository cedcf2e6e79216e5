import { describe, expect, test } from 'vitest'
import { CardReader } from '../../../src/models/understudy/card-passages.ts'
import { inFirstPerson, subjectOf } from '../../../src/models/understudy/first-person.ts'
import { personalSubject } from '../../../src/models/understudy/personal.ts'
import { personalitySaid } from '../../../src/models/understudy/traits.ts'
import { cardOf, cardWithLore } from '../../support/lore-cards.ts'
import { unitsOf } from '../../support/units.ts'

const ida = subjectOf(['Ida'], 'She is old.')

describe('the material of a card', () => {
  test('examples with indented lines, full-width colons and other names for the user', () => {
    const examples = 'User: Tea?\nIda： Ginger.\n\n \t**you**: Cake?\nIda: Plum.\n\u3000PLAYER: Pie?\nIda: Apple.'
    const { passages } = new CardReader(cardOf({ name: 'Ida', mes_example: examples })).material()
    expect(passages.map(({ cue, answer }) => `${cue} ${answer}`)).toEqual([
      'Tea? Ginger.',
      'Cake? Plum.',
      'Pie? Apple.',
    ])
  })

  test('texts of line separators are read in time', () => {
    const entries = Array.from({ length: 300 }, (_, index) => ({ content: `a${'\u2028'.repeat(15_990)}${index}` }))
    const card = cardWithLore(entries, {}, { name: 'Ida', mes_example: `a${'\u2028'.repeat(99_998)}b` })
    expect(new CardReader(card).material().blocks).toBe(1)
  })

  test('a line in brackets is a trait', () => {
    const card = cardOf({ name: 'Ida', description: '[Age: 24) ]\n- ( Likes: rain )\n{Loves: tea}>' })
    const { passages } = new CardReader(card).material()
    expect(passages.map(({ answer }) => answer)).toEqual(['I am 24 years old.', 'I like rain.', 'I love tea.'])
  })

  test('actions are looked for in each text separately, until there are enough', () => {
    const letters = 3500
    const cost = (line: string) => {
      const lines = Array.from({ length: 9 }, (_, index) => `<START>\n{{char}}: ${index} ${line}`)
      const card = cardOf({ name: 'Ida', mes_example: lines.join('\n') })
      const reader = new CardReader(card)
      return { ...reader.material(), units: unitsOf(() => reader.material()) }
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

describe('sentences of a character', () => {
  test.each([
    ['warm( to friends ), kind  ( mostly)', ['They call me warm to friends and kind mostly.']],
    [`"warm" , 'kind';  brave. . `, ["They call me warm, 'kind' and brave."]],
    [`warm, x (${' '.repeat(20_000)}x`, [`They call me warm and x (${' '.repeat(20_000)}x.`]],
    [`warm, x${' '.repeat(200_000)}x`, [`They call me warm and x${' '.repeat(200_000)}x.`]],
    [`warm, ${'.'.repeat(200_000)}x`, [`They call me warm and ${'.'.repeat(200_000)}x.`]],
  ])('a list of traits, %#', (list, said) => {
    expect(personalitySaid(list, ida)).toEqual(said)
  })

  test.each([
    ['Ida has bees.', 'I have bees.'],
    ['Ida says “I keep bees”.', 'I say “I keep bees”.'],
    ['Ida says "no", and I say yes.', 'Ida says "no", and I say yes.'],
    ['Ida says “I am', 'Ida says “I am'],
    [`Ida has ${'“'.repeat(200_000)}`, `I have ${'“'.repeat(200_000)}`],
  ])('the first person of a sentence without its quotes, %#', (sentence, said) => {
    expect(inFirstPerson(sentence, ida)).toBe(said)
  })

  test.each([
    ['I am thirty-odd.', true],
    ['I am young.', false],
    ['N'.repeat(200_000), false],
  ])('an answer to a question for the age, %#', (answer, isAnswer) => {
    const passage = { id: 0, cue: '', hint: '', answer, source: 'self' } as const
    expect(personalSubject('how old are you?')?.(passage)).toBe(isAnswer)
  })
})
