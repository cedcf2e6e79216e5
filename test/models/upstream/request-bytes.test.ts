import fc from 'fast-check'
import { expect, it } from 'vitest'
import { requestBytes } from '../../../src/models/upstream/request-bytes.ts'
import { workAtOnce } from '../../../src/work.ts'

const message = fc.record({ role: fc.constant('user' as const), content: fc.string({ unit: 'grapheme' }) })

it('writes a request as JSON.stringify does, also with frozen messages that an earlier request had', () => {
  fc.assert(
    fc.property(fc.array(message), fc.array(message), fc.array(message), (frozen, first, second) => {
      const kept = frozen.map((each) => Object.freeze(each))
      for (const own of [first, second]) {
        const request = { model: 'm', messages: [...kept, ...own], stream: true }
        expect(JSON.parse(workAtOnce().run('messages', requestBytes(request)).toString())).toEqual(
          JSON.parse(JSON.stringify(request)),
        )
      }
    }),
  )
})

it('ends a step after each long message, and after long properties', () => {
  const long = 'a'.repeat(20_000)
  const messages = [
    { role: 'user' as const, content: long },
    { role: 'user' as const, content: 'Hello' },
  ]
  expect([...requestBytes({ model: 'm', messages, user: long })]).toHaveLength(2)
})
