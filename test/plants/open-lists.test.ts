import { expect, it } from 'vitest'
import { OpenLists } from '../../src/plants/open-lists.ts'

it('(q) at most 32 long lists are open, and at most eight of one account', () => {
  const lists = new OpenLists()
  const leave = lists.enter(1)
  for (let each = 1; each < 8; each++) lists.enter(1)
  expect(() => lists.enter(1)).toThrow(expect.objectContaining({ status: 503, code: 'overloaded' }))
  for (const account of [2, 3, 4]) for (let each = 0; each < 8; each++) lists.enter(account)
  expect(() => lists.enter(5)).toThrow('Ask for pages with a limit')
  leave()
  lists.enter(5)
})
