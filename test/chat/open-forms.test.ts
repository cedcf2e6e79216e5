import { describe, expect, test } from 'vitest'
import { readChatError, readCompletion } from '../support/chat.ts'
import { serviceForThisTest } from '../support/service.ts'
import { completion, json } from '../support/upstream.ts'
import { messages, onlyCall, post, service, upstream, upstreamServiceForThisFile } from '../support/upstream-service.ts'

upstreamServiceForThisFile()

const weather = { type: 'function', function: { name: 'weather' } }
const clock = { type: 'function', function: { name: 'clock' } }
// OpenAI's API reference, "Create chat completion": tools of type custom.
const shell = {
  type: 'custom',
  custom: {
    name: 'shell',
    description: 'Runs a line.',
    format: { type: 'grammar', grammar: { syntax: 'lark', definition: 'start: /.+/' } },
  },
}
const named = { type: 'custom', custom: { name: 'shell' } }
const allowed = { type: 'allowed_tools', allowed_tools: { mode: 'required', tools: [clock, named] } }
const called = { id: 'call_1', type: 'custom', custom: { name: 'shell', input: 'ls' } }
const turn = [
  { role: 'assistant', content: null, tool_calls: [called] },
  { role: 'tool', tool_call_id: 'call_1', content: 'pots' },
]
const part = (fields: object) => [{ role: 'user', content: [{ type: 'text', text: 'Look' }, fields] }]

describe('requests and replies pass unchanged', () => {
  test.each<readonly [string, Readonly<Record<string, unknown>>]>([
    ['a custom tool', { tools: [weather, shell] }],
    ['the choice of a custom tool', { tools: [shell], tool_choice: named }],
    ['a choice of allowed tools', { tools: [weather, clock, shell], tool_choice: allowed }],
    ['a call of a custom tool and its result', { messages: [...messages, ...turn], tools: [shell] }],
    ['-1 as the maximum of tokens', { max_tokens: -1, max_completion_tokens: -1 }],
    ['a temperature over 2', { temperature: 5 }],
    ['a grammar', { grammar: 'root ::= "yes" | "no"' }],
    ['a video', { messages: part({ type: 'video_url', video_url: { url: 'https://a.example/b.mp4', fps: 1 } }) }],
    [
      'a sound by its address',
      { messages: part({ type: 'audio_url', audio_url: { url: 'https://a.example/b.wav' } }) },
    ],
  ])('a request with %s reaches the upstream unchanged', async (_what, more) => {
    const response = await post(more)
    expect([response.status, response.headers.get('x-ignored-params')]).toEqual([200, null])
    expect(onlyCall().body).toStrictEqual({ model: 'gpt-test', messages, ...more })
  })

  test('a call of a custom tool reaches the client unchanged', async () => {
    const message = { role: 'assistant', content: null, refusal: null, tool_calls: [called] }
    const choices = [{ index: 0, message, logprobs: null, finish_reason: 'tool_calls' }]
    upstream.answer(json(completion('', { choices })))
    const reply = await readCompletion(await post({ tools: [shell] }))
    expect(reply.choices[0]?.message.tool_calls).toEqual([called])
  })
})

describe('numbers that a double would round', () => {
  const long = ['9223372036854775807', '-9007199254740993', '0.1234567890123456789', '1e400', '1.000000000000000000001']
  const schema = `{"type":"integer","enum":[${long}]}`
  const sendText = (body: string) =>
    service.request('/chat/completions', { body, headers: { 'content-type': 'application/json' } })
  const start = '{"model":"gpt-test","messages":[{"role":"user","content":"Hello"'

  test.each([
    ['a tool', `}],"tools":[{"type":"function","function":{"name":"pot","parameters":${schema}}}]`],
    ['a format', `}],"response_format":{"type":"json_schema","json_schema":{"name":"pot","schema":${schema}}}`],
    ['an unknown field', `}],"pots":[${long}]`],
    ['metadata', `}],"metadata":{"pots":[${long}]}`],
    ['a field of a message', `,"pots":[${long}]}]`],
  ])('reach the upstream as they were written, in %s', async (_where, more) => {
    const response = await sendText(`${start}${more}}`)
    expect(response.status).toBe(200)
    expect(onlyCall().text).toContain(long.join(','))
  })

  test.each([
    ['"seed":9007199254740993', 'seed'],
    ['"max_tokens":9223372036854775807', 'max_tokens'],
    ['"n":1.00000000000000000001', null],
  ])('are refused in fields that the service reads: %s', async (more, param) => {
    const response = await sendText(`${start}}],${more}}`)
    expect(response.status).toBe(400)
    expect(await readChatError(response)).toMatchObject({ param })
    expect(upstream.calls).toEqual([])
  })

  test('are compared with the caps of a model', async () => {
    const capped = await serviceForThisTest(
      {},
      { capped: { adapter: 'openai', baseUrl: upstream.url, params: { cap: { top_k: 5 } } } },
    )
    await capped.request('/chat/completions', {
      body: '{"model":"capped","messages":[{"role":"user","content":"Hello"}],"top_k":99999999999999999999}',
      headers: { 'content-type': 'application/json' },
    })
    expect(onlyCall().body).toMatchObject({ top_k: 5 })
  })
})

describe('a model that takes no video', () => {
  test('gets no request: the error names the part', async () => {
    const seeing = await serviceForThisTest(
      {},
      { seeing: { adapter: 'openai', baseUrl: upstream.url, input: ['text', 'image'] } },
    )
    const json = {
      model: 'seeing',
      messages: part({ type: 'video_url', video_url: { url: 'https://a.example/b.mp4' } }),
    }
    const response = await seeing.request('/chat/completions', { json })
    expect(response.status).toBe(400)
    expect(await readChatError(response)).toMatchObject({
      code: 'unsupported_input',
      param: 'messages[0].content[1]',
      message: 'The model "seeing" takes no video (messages[0].content[1]). Leave it out.',
    })
    expect(upstream.calls).toEqual([])
  })
})

test('max_tokens -1 reserves as many tokens of a limit as no maximum', async () => {
  const limited = await serviceForThisTest({ LIMITS: 'tokens_per_minute=500', OPENAI_BASE_URL: upstream.url })
  const refusalOf = async (more: object) => {
    const response = await limited.request('/chat/completions', { json: { model: 'm', messages, ...more } })
    expect(response.status).toBe(429)
    return (await readChatError(response)).message
  }
  const without = await refusalOf({})
  expect(await refusalOf({ max_tokens: -1 })).toBe(without)
  expect(await refusalOf({ max_tokens: -1, max_completion_tokens: -1 })).toBe(without)
  expect(await refusalOf({ max_tokens: 2000 })).not.toBe(without)
  expect(upstream.calls).toEqual([])
})

describe('the understudy', () => {
  const ask = (more: object) => post({ model: 'understudy', ...more })

  test('answers the same for max_tokens -1 as without a maximum', async () => {
    const [free, endless] = await Promise.all(
      [ask({}), ask({ max_tokens: -1 })].map(async (reply) => readCompletion(await reply)),
    )
    expect(endless?.choices).toEqual(free?.choices)
  })

  test('calls one of the allowed functions, and reports "tools" as ignored if it cannot call one of them', async () => {
    const response = await ask({ tools: [weather, clock, shell], tool_choice: allowed })
    expect(response.headers.get('x-ignored-params')).toBe('tools')
    const [choice] = (await readCompletion(response)).choices
    expect(choice?.message.tool_calls).toMatchObject([{ type: 'function', function: { name: 'clock' } }])
  })

  test.each([named, { type: 'allowed_tools', allowed_tools: { mode: 'required', tools: [named] } }])(
    'refuses a tool_choice with a tool that it cannot call: %j',
    async (tool_choice) => {
      const response = await ask({ tools: [weather, shell], tool_choice })
      expect(response.status).toBe(400)
      expect(await readChatError(response)).toMatchObject({ code: 'invalid_field', param: 'tool_choice' })
    },
  )
})
