import { expect, it } from 'vitest'
import { OpenLists } from '../../src/plants/open-lists.ts'

it('long lists are so many at once, and half of them are of one account', () => {
  const lists = new OpenLists(4)
  const leave = lists.enter(1)
  lists.enter(1)
  expect(() => lists.enter(1)).toThrow(expect.objectContaining({ status: 503, code: 'overloaded' }))
  lists.enter(2)
  lists.enter(3)
  expect(() => lists.enter(4)).toThrow('Ask for pages with a limit')
  leave()
  lists.enter(4)
})
