import { setImmediate as nextTurn } from 'node:timers/promises'
import { queryObjects } from 'node:v8'
import { expect, test } from 'vitest'
import { asked, complete, vendorForThisTest } from '../../support/ai-sdk.ts'
import { replay } from '../../support/replay.ts'

/** A message that can be counted in memory. */
class CountedMessage {
  readonly role = 'user'
  readonly content = 'Why are my leaves yellow?'
}

test('a connection to a provider does not keep the prompt for which it was opened', async () => {
  const { model } = await vendorForThisTest('anthropic', [replay('anthropic/text.json')])
  await complete(model, asked({ messages: [new CountedMessage()] }))
  // The connection stays open for four seconds. After a few turns nothing else has the prompt.
  for (let count = 0; count < 20; count++) await nextTurn()
  expect(queryObjects(CountedMessage, { format: 'count' })).toBe(0)
})
