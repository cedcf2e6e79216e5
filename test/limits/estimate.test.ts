import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { promptEstimate } from '../../src/limits/estimate.ts'
import { readChatError } from '../support/chat.ts'
import { makeLimitedKey } from '../support/limits.ts'
import { onceAsked, startTestService, type TestService } from '../support/service.ts'
import { completion, json, type ScriptedUpstream, startUpstream } from '../support/upstream.ts'

let upstream: ScriptedUpstream
let service: TestService
let key: string

beforeAll(async () => {
  upstream = await startUpstream(json(completion('Hello.')))
  service = await startTestService({}, onceAsked(upstream.url))
  key = await makeLimitedKey(service.dataDirectory, { tokens_per_day: 2000 })
})

afterAll(async () => {
  await service?.close()
  await upstream?.close()
})

const long = 'many words '.repeat(1000)
const hello = { role: 'user', content: 'Hello' }
const schema = { type: 'object', description: long }

/** Every field that makes a request longer for the model, also fields that a caller may hope are not counted. */
const longRequests: Readonly<Record<string, object>> = {
  'a text': { messages: [{ role: 'user', content: long }] },
  'a part of a text': { messages: [{ role: 'user', content: [{ type: 'text', text: long }] }] },
  'a refusal': { messages: [{ role: 'assistant', refusal: long }, hello] },
  'a part of a refusal': { messages: [{ role: 'assistant', content: [{ type: 'refusal', refusal: long }] }, hello] },
  'a name': { messages: [{ ...hello, name: long }] },
  'the reasoning of a model': { messages: [{ role: 'assistant', content: 'Hi', reasoning_content: long }, hello] },
  'a call of a function': {
    messages: [{ role: 'assistant', function_call: { name: 'f', arguments: long } }, hello],
  },
  'a call of a tool': {
    messages: [
      { role: 'assistant', tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: long } }] },
      { role: 'tool', tool_call_id: 'a', content: 'x' },
    ],
  },
  tools: { tools: [{ type: 'function', function: { name: 'f', parameters: schema } }] },
  functions: { functions: [{ name: 'f', parameters: schema }] },
  'the format of the reply': { response_format: { type: 'json_schema', json_schema: { name: 'f', schema } } },
  'a prediction': { prediction: { type: 'content', content: long } },
  max_tokens: { max_tokens: 3000 },
  max_completion_tokens: { max_tokens: null, max_completion_tokens: 3000 },
  'max_tokens with a lower max_completion_tokens': { max_tokens: 3000, max_completion_tokens: 1 },
  'max_completion_tokens with a lower max_tokens': { max_tokens: 1, max_completion_tokens: 3000 },
}

test.each(Object.entries(longRequests))(
  'a request reserves the tokens of %s before a model is called',
  async (_, more) => {
    upstream.calls.length = 0
    const response = await service.request('/chat/completions', {
      headers: { authorization: key },
      json: { model: 'm', messages: [hello], max_tokens: 1, ...more },
    })
    expect(response.status).toBe(429)
    expect((await readChatError(response)).message).toMatch(/^The request may take \d+ tokens, and the limit/)
    expect(upstream.calls).toEqual([])
  },
)

test('a short request passes', async () => {
  const more = { max_tokens: 1, response_format: { type: 'text' }, stream_options: null, metadata: { note: long } }
  const response = await service.request('/chat/completions', {
    headers: { authorization: key },
    json: { model: 'm', messages: [hello], ...more },
  })
  expect(response.status).toBe(200)
})

test('tools are estimated by the bytes of their JSON, or rather higher', () => {
  const text = fc.string({ unit: 'grapheme' }).filter((each) => JSON.stringify(each).length === each.length + 2)
  const value = fc.letrec((tie) => ({
    any: fc.oneof(
      text,
      fc.double(),
      fc.integer(),
      fc.constantFrom(null, true, -0),
      fc.array(tie('any')),
      fc.dictionary(text, tie('any')),
    ),
  })).any
  // A container counts with one comma more than its JSON has, and a number with the most bytes that it may have.
  const excess = (json: unknown): number => {
    if (typeof json === 'number') return 24
    const values = typeof json === 'object' && json !== null ? Object.values(json) : undefined
    return values ? values.reduce((sum: number, each) => sum + excess(each), 1) : 0
  }
  fc.assert(
    fc.property(fc.array(value), (tools) => {
      const bytes = Buffer.byteLength(JSON.stringify(tools))
      const request = { messages: [], tools }
      const estimate = promptEstimate(request)
      expect(estimate).toBeGreaterThanOrEqual(Math.floor(bytes / 3))
      expect(estimate).toBeLessThanOrEqual(Math.ceil((bytes + excess(tools)) / 3))
    }),
  )
})

test("a card's frozen messages are estimated like copies that were never estimated before", () => {
  const message = fc.record(
    {
      role: fc.constantFrom('system' as const, 'user' as const),
      content: fc.oneof(
        fc.string({ unit: 'grapheme' }),
        fc.nat().map((id) => [{ type: 'image_url' as const, image_url: { url: `https://images.test/${id}` } }]),
      ),
      name: fc.string({ unit: 'grapheme' }),
    },
    { requiredKeys: ['role', 'content'] },
  )
  fc.assert(
    fc.property(fc.array(message), fc.array(fc.array(message)), (card, conversations) => {
      const frozen = card.map((each) => Object.freeze(each))
      for (const own of conversations) {
        const messages = [...frozen, ...own]
        expect(promptEstimate({ messages })).toBe(promptEstimate({ messages: structuredClone(messages) }))
      }
    }),
  )
})
