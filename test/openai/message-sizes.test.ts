import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { Message } from '../../src/openai/completion-request.ts'
import { FrozenMessagesCache } from '../../src/openai/message-sizes.ts'

/** Conversations, as indexes in a list of four frozen messages and two messages that are not frozen. */
const conversations = fc.array(fc.array(fc.nat(5), { maxLength: 6 }), { maxLength: 12 })

it('gives values of all messages in their order, and makes fewer values', () => {
  let [made, given] = [0, 0]
  fc.assert(
    fc.property(conversations, (asked) => {
      const all = Array.from({ length: 6 }, (_, index): Message => {
        const message: Message = { role: 'system', content: `${index}` }
        return index < 4 ? Object.freeze(message) : message
      })
      const cache = new FrozenMessagesCache((messages) => {
        made++
        return JSON.stringify(messages)
      })
      for (const places of asked) {
        const conversation = places.flatMap((place) => all[place] ?? [])
        const values = cache.of(conversation)
        expect(values.flatMap((value): unknown => JSON.parse(value))).toEqual(conversation)
        given += values.length
      }
    }),
  )
  expect(made).toBeLessThan(given)
})

it.each([
  [16, 16],
  [17, 18],
])(
  'keeps at most four million characters: for %i long beginnings and the first one again, %i values are made',
  (count, values) => {
    let made = 0
    const cache = new FrozenMessagesCache(() => made++)
    const beginnings = Array.from({ length: count }, (_, index): readonly Message[] => [
      Object.freeze({ role: 'system' as const, content: String(index).padStart(256 * 1024, ' ') }),
    ])
    for (const messages of beginnings) cache.of(messages)
    cache.of(beginnings[0] ?? [])
    expect(made).toBe(values)
  },
)
