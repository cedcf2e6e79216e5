import fc from 'fast-check'
import { expect, it } from 'vitest'
import { requestBytes } from '../../../src/models/upstream/request-bytes.ts'

const message = fc.record({ role: fc.constant('user' as const), content: fc.string({ unit: 'grapheme' }) })

it('writes a request as JSON.stringify does, also with frozen messages that an earlier request had', () => {
  fc.assert(
    fc.property(fc.array(message), fc.array(message), fc.array(message), (frozen, first, second) => {
      const kept = frozen.map((each) => Object.freeze(each))
      for (const own of [first, second]) {
        const request = { model: 'm', messages: [...kept, ...own], stream: true }
        expect(JSON.parse(requestBytes(request).toString())).toEqual(JSON.parse(JSON.stringify(request)))
      }
    }),
  )
})
