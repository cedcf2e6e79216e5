import { expect, onTestFinished, test } from 'vitest'
import { ownTurn } from '../../../src/models/upstream/answer.ts'

test('large answers that arrive together are read in different turns of the event loop, in their order', async () => {
  let turn = 0
  let ticking = setImmediate(function tick() {
    turn++
    ticking = setImmediate(tick)
  })
  onTestFinished(() => clearImmediate(ticking))
  const turns = await Promise.all(Array.from({ length: 5 }, () => ownTurn(2, 1)?.then(() => turn)))
  expect(turns).toEqual([1, 2, 3, 4, 5])
})

test('a small answer does not wait', () => {
  void ownTurn(2, 1)
  expect(ownTurn(1, 1)).toBeUndefined()
})
