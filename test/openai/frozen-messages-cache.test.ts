import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { Message } from '../../src/openai/completion-request.ts'
import { FrozenMessagesCache } from '../../src/openai/frozen-messages-cache.ts'

/** The expected beginning: the messages before the first message that is not frozen. */
function frozenBeginning(messages: readonly Message[]): readonly Message[] {
  const end = messages.findIndex((message) => !Object.isFrozen(message))
  return end === -1 ? messages : messages.slice(0, end)
}

/** Conversations, as indexes in a list of four frozen messages and two messages that are not frozen. */
const conversations = fc.array(fc.array(fc.nat(5), { maxLength: 6 }), { maxLength: 12 })

it('gives the same value as without a cache, and makes fewer values', () => {
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
        const frozen = frozenBeginning(conversation)
        const found = cache.of(conversation)
        expect(found).toEqual(frozen.length === 0 ? undefined : { messages: frozen, made: JSON.stringify(frozen) })
        given += found ? 1 : 0
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
