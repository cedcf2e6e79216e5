import fc from 'fast-check'
import { expect, it } from 'vitest'
import { requestBytes } from '../../../src/models/openai-model.ts'
import type { Message } from '../../../src/openai/completion-request.ts'

const message = fc.record({ role: fc.constant('user' as const), content: fc.string({ unit: 'grapheme' }) })

it('writes a request as JSON.stringify does, also with frozen messages that an earlier request had', () => {
  fc.assert(
    fc.property(fc.array(message), fc.array(message), fc.array(message), (frozen, first, second) => {
      const kept = frozen.map((each) => Object.freeze(each))
      for (const own of [first, second]) {
        const request = { model: 'm', messages: [...kept, ...own], stream: true }
        expect(JSON.parse(`${requestBytes(request, undefined)}`)).toEqual(request)
        const json = Buffer.from(JSON.stringify(request.messages))
        expect(JSON.parse(`${requestBytes(request, undefined, json)}`)).toEqual(request)
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
])('writes %s', (_what, fields) => {
  const request = { model: 'm', ...fields, stream: true }
  expect(JSON.parse(`${requestBytes(request, undefined)}`)).toEqual(request)
})

it('does not read the messages if their JSON is there, and replaces only the stream options', () => {
  const body = {
    ...{ model: 'm', stream: true, stream_options: { include_usage: false } },
    get messages(): readonly Message[] {
      throw new Error('the messages are read')
    },
  }
  const written = requestBytes(body, { include_usage: true }, Buffer.from('[{"role":"user","content":"Hello"}]'))
  expect(JSON.parse(`${written}`)).toEqual({
    ...{ model: 'm', stream: true, stream_options: { include_usage: true } },
    messages: [hello],
  })
})
