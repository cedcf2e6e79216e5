import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readCompletion, readStream, textOfStream } from '../support/chat.ts'
import { faultsOfCompletion, faultsOfStream } from '../support/openai-schemas.ts'
import { startTestService, type TestService } from '../support/service.ts'

let service: TestService

beforeAll(async () => {
  service = await startTestService()
})

afterAll(() => service?.close())

const messages = [{ role: 'user', content: 'How do I know when to repot my plant?' }]
const tool = {
  type: 'function',
  function: {
    name: 'book',
    parameters: {
      type: 'object',
      properties: { day: { type: 'string', format: 'date' }, seats: { type: 'integer', minimum: 1 } },
      required: ['day', 'seats'],
    },
  },
}
const schema = {
  type: 'object',
  properties: {
    answer: { type: 'string' },
    sure: { type: 'boolean' },
    tags: { type: 'array', items: { enum: ['a', 'b'] } },
  },
  required: ['answer', 'sure', 'tags'],
  additionalProperties: false,
}
const result = [
  {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'c', type: 'function', function: { name: 'book', arguments: '{}' } }],
  },
  { role: 'tool', tool_call_id: 'c', content: '{"booked":true}' },
]

const requests: readonly (readonly [what: string, more: Readonly<Record<string, unknown>>])[] = [
  ['a text', {}],
  ['a character', { character: 'Fern' }],
  ['a greeting', { character: 'Fern', messages: [{ role: 'user', content: 'Hello!' }] }],
  ['several choices', { n: 8, character: 'Fern' }],
  ['few tokens', { max_tokens: 2 }],
  ['a stop text that matches immediately', { stop: [''], n: 2 }],
  ['a stop text', { stop: ' ' }],
  ['a tool that must be called', { tools: [tool], tool_choice: 'required' }],
  [
    'a named tool, for two choices',
    { tools: [tool], tool_choice: { type: 'function', function: { name: 'book' } }, n: 2 },
  ],
  ['a tool call that is cut', { tools: [tool], tool_choice: 'required', max_tokens: 2 }],
  ['a tool that may be called', { tools: [tool], tool_choice: 'auto' }],
  ["a tool's result", { messages: [...messages, ...result], tools: [tool] }],
  ['a JSON object', { response_format: { type: 'json_object' } }],
  [
    'a JSON schema',
    { response_format: { type: 'json_schema', json_schema: { name: 'x', strict: true, schema } }, n: 2 },
  ],
  ['parts', { messages: [{ role: 'user', content: [{ type: 'text', text: 'Hello 🌵' }] }] }],
  ['logprobs, which the understudy does not have', { logprobs: true, top_logprobs: 2 }],
  ['no words', { model: 'understudy/empty' }],
]

describe('a reply of the understudy fits the schemas that OpenAI has published', () => {
  const post = (more: Readonly<Record<string, unknown>>) =>
    service.request('/chat/completions', { json: { model: 'understudy', messages, ...more } })

  test.each(requests)('whole: %s', async (_what, more) => {
    const response = await post(more)
    expect(response.status).toBe(200)
    const completion = await readCompletion(response)
    expect(faultsOfCompletion(completion)).toEqual([])
    expect(completion.usage).toBeDefined()
    for (const { message } of completion.choices) {
      for (const call of message.tool_calls ?? []) expect(call.id).not.toBe('')
    }
  })

  test.each(requests)('streamed, with and without usage: %s', async (_what, more) => {
    for (const include_usage of [false, true]) {
      const streamed = await readStream(await post({ ...more, stream: true, stream_options: { include_usage } }))
      expect(streamed.errors).toEqual([])
      expect(faultsOfStream(streamed.chunks)).toEqual([])
      expect(streamed.chunks.filter(({ usage }) => usage != null)).toHaveLength(include_usage ? 1 : 0)
      expect(streamed.isDone).toBe(true)
    }
  })

  test('an answer fits a JSON schema, whole and streamed', async () => {
    const more = { response_format: { type: 'json_schema', json_schema: { name: 'x', strict: true, schema } } }
    const whole = (await readCompletion(await post(more))).choices[0]?.message.content ?? ''
    expect(JSON.parse(whole)).toStrictEqual({
      answer: expect.any(String),
      sure: expect.any(Boolean),
      tags: expect.any(Array),
    })
    expect(textOfStream(await readStream(await post({ ...more, stream: true })))).toBe(whole)
  })

  test('the checks find missing fields', async () => {
    const completion = await readCompletion(await post({}))
    const { refusal: _refusal, ...message } = completion.choices[0]?.message ?? { refusal: null }
    expect(faultsOfCompletion({ ...completion, choices: [{ ...completion.choices[0], message }] })).not.toEqual([])
    const { chunks } = await readStream(await post({ stream: true }))
    expect(faultsOfStream(chunks.slice(1))).not.toEqual([])
    expect(faultsOfStream(chunks.slice(0, -1))).not.toEqual([])
  })
})
