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

const long = 'ä'.repeat(1_000_000)
const hello = { role: 'user' as const, content: 'Hello' }

it.each([
  ['a long frozen message', { messages: [Object.freeze({ role: 'system' as const, content: long }), hello] }],
  ['a long message', { messages: [hello, { role: 'user' as const, content: long }, hello] }],
  ['a long field of a message', { messages: [{ ...hello, reasoning_content: long }] }],
  ['a long parameter', { messages: [hello], user: long }],
  [
    'many long messages',
    { messages: Array.from({ length: 80 }, () => ({ ...hello, content: long.slice(0, 20_000) })) },
  ],
])('writes %s in steps', (_what, fields) => {
  const request = { model: 'm', ...fields, stream: true }
  const steps = requestBytes(request)
  let count = 0
  let step = steps.next()
  for (; !step.done; step = steps.next()) count++
  expect(JSON.parse(`${step.value}`)).toEqual(request)
  expect(count).toBeGreaterThan(15)
})
