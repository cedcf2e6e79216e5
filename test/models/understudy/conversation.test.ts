import { expect, test } from 'vitest'
import { nounOf } from '../../../src/models/understudy/conversation.ts'

test.each([
  ['Where is the door of the house of the aunt in Peru?', 'the door of the house of the aunt in Peru'],
  ['Was it Lisbon? Tell me.', 'Lisbon'],
  ['"Lisbon" is where?', 'Lisbon'],
  ['Lisbon is where?', null],
  ['So? … Lisbon is where?', null],
  [`Where is a ${'bridge of '.repeat(20_000)}?`, `a ${Array(10).fill('bridge').join(' of ')}`],
])('the noun of question %#', (question, noun) => {
  expect(nounOf(question)).toBe(noun)
})
