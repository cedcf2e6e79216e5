import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readChatError } from '../support/chat.ts'
import { startTestService, type TestService } from '../support/service.ts'

let service: TestService

beforeAll(async () => {
  service = await startTestService()
})

afterAll(() => service?.close())

function ask(question: string, more: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  return { model: 'understudy', messages: [{ role: 'user', content: question }], ...more }
}

function many(count: number, item: unknown): readonly unknown[] {
  return Array.from({ length: count }, () => item)
}

const fields = (count: number) => Object.fromEntries(many(count, 1).map((value, index) => [`f${index}`, value]))

test.each(['/chat/completions', '/chat/prompt', '/responses'])(
  'a request of more than 1,000 fields is a 400: %s',
  async (path) => {
    const json = path === '/responses' ? { model: 'understudy', input: 'Hi' } : ask('Hi')
    expect((await service.request(path, { json: { ...json, ...fields(998) } })).status).toBe(200)
    const response = await service.request(path, { json: { ...json, ...fields(999) } })
    expect(response.status).toBe(400)
    expect(await readChatError(response)).toStrictEqual({
      message: 'The body has more than 1000 fields. Send fewer.',
      type: 'invalid_request_error',
      param: null,
      code: 'too_complex',
    })
  },
)

describe('bad input is a 400 that names the field', () => {
  const canary = 'CANARY'
  const message = (fields: Readonly<Record<string, unknown>>) => ({ messages: [{ role: 'user', ...fields }] })
  const part = (fields: Readonly<Record<string, unknown>>) =>
    message({ content: [{ type: 'text', text: 'a' }, fields] })
  const toolMessages = (...messages: readonly unknown[]) => ({
    messages: [{ role: 'user', content: 'Weather?' }, ...messages],
  })
  const call = { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{}' } }
  const tool = { type: 'function', function: { name: 'weather' } }

  const scenarios: readonly (readonly [param: string, ...faults: readonly Readonly<Record<string, unknown>>[]])[] = [
    [
      'model',
      { model: undefined },
      { model: null },
      { model: '' },
      { model: 5 },
      { model: [canary] },
      { model: '\ud800' },
    ],
    ['model', { model: 'a'.repeat(501) }],
    ['messages', { messages: undefined }, { messages: null }, { messages: [] }, { messages: canary }, { messages: {} }],
    ['messages[0]', { messages: [null] }, { messages: [canary] }, { messages: [[]] }, { messages: [5] }],
    ['messages[0].role', message({ role: undefined, content: canary }), message({ role: null, content: canary })],
    ['messages[0].role', message({ role: canary, content: 'a' }), message({ role: 5, content: canary })],
    ['messages[0].content', message({}), message({ content: null }), message({ content: 5 }), message({ content: {} })],
    ['messages[0].content', message({ content: [] }), { messages: [{ role: 'system' }] }],
    [
      'messages[1].role',
      {
        messages: [
          { role: 'user', content: canary },
          { role: 'bot', content: canary },
        ],
      },
    ],
    ['messages[0].content[1].type', part({ text: canary }), part({ type: canary }), part({ type: null })],
    ['messages[0].content[1].text', part({ type: 'text' }), part({ type: 'text', text: 5 })],
    ['messages[0].content[1].image_url', part({ type: 'image_url' }), part({ type: 'image_url', image_url: canary })],
    ['messages[0].content[1].image_url.url', part({ type: 'image_url', image_url: {} })],
    ['messages[0].name', message({ content: 'a', name: 5 })],
    ['messages[0].tool_calls', message({ content: 'a', tool_calls: canary })],
    ['messages', { messages: many(10_001, { role: 'user', content: canary }) }],
    ['messages', { messages: many(21, { role: 'user', content: many(1000, { type: 'text', text: canary }) }) }],
    ['messages[0].content', message({ content: many(1001, { type: 'text', text: canary }) })],
    ['messages[0].tool_calls', { messages: [{ role: 'assistant', tool_calls: many(1001, call) }] }],
    ['messages[0].tool_calls[0].id', message({ content: 'a', tool_calls: [{ ...call, id: '' }] })],
    [
      'messages[0].tool_calls[0].id',
      { messages: [{ role: 'assistant', tool_calls: [{ ...call, id: 'c'.repeat(16_001) }] }] },
    ],
    ['messages[1].tool_call_id', toolMessages({ role: 'tool', content: canary })],
    ['messages[1].tool_call_id', toolMessages({ role: 'tool', content: canary, tool_call_id: 'call_1' })],
    [
      'messages[2].tool_call_id',
      toolMessages({ role: 'assistant', tool_calls: [call] }, { role: 'tool', content: 'a', tool_call_id: canary }),
    ],
    [
      'character',
      { character: 5 },
      { character: [canary] },
      { character: 'a'.repeat(201) },
      { character: '🌵'.repeat(201) },
    ],
    ['character', { character: '\ud83c' }, { character: 'a\udf35b' }],
    ['user_name', { user_name: 5 }, { user_name: {} }, { user_name: '🌵'.repeat(201) }],
    ['stream', { stream: 'true' }, { stream: 1 }, { stream: {} }],
    ['stream_options', { stream: true, stream_options: true }, { stream_options: canary }],
    ['stream_options.include_usage', { stream: true, stream_options: { include_usage: 'yes' } }],
    ['n', { n: 0 }, { n: -1 }, { n: 9 }, { n: 1e6 }, { n: 1e308 }, { n: 1.5 }, { n: '2' }, { n: true }, { n: [1] }],
    [
      'max_tokens',
      { max_tokens: 0 },
      { max_tokens: -5 },
      { max_tokens: 1.5 },
      { max_tokens: '5' },
      { max_tokens: 2 ** 31 },
    ],
    ['max_tokens', { max_tokens: -2 }, { max_tokens: -1.5 }],
    ['max_completion_tokens', { max_completion_tokens: 0 }, { max_completion_tokens: '5' }],
    ['stop', { stop: 5 }, { stop: {} }, { stop: Array.from({ length: 17 }, () => 'a') }],
    ['stop[0]', { stop: [5] }, { stop: [null] }],
    ['seed', { seed: '7' }, { seed: 1.5 }, { seed: 2 ** 53 }, { seed: {} }],
    ['temperature', { temperature: -0.1 }, { temperature: '1' }, { temperature: [] }],
    ['top_p', { top_p: -0.1 }, { top_p: 1.1 }, { top_p: canary }],
    ['presence_penalty', { presence_penalty: -2.1 }, { presence_penalty: 2.1 }],
    ['frequency_penalty', { frequency_penalty: -2.1 }, { frequency_penalty: '0' }],
    ['logprobs', { logprobs: 1 }, { logprobs: 'true' }],
    ['top_logprobs', { top_logprobs: 21 }, { top_logprobs: -1 }],
    ['tools', { tools: {} }, { tools: canary }, { tools: Array.from({ length: 129 }, () => tool) }],
    ['tools[0].type', { tools: [{ ...tool, type: canary }] }, { tools: [{ function: { name: 'a' } }] }],
    ['tools[0].function', { tools: [{ type: 'function' }] }, { tools: [{ type: 'function', function: canary }] }],
    ['tools[0].custom', { tools: [{ type: 'custom' }] }, { tools: [{ type: 'custom', custom: canary }] }],
    ['tools[0].custom.name', { tools: [{ type: 'custom', custom: {} }] }],
    [
      'tool_choice.function.name',
      { tools: [tool], tool_choice: { type: 'function', function: { name: canary.repeat(50) } } },
    ],
    ['tool_choice.custom', { tools: [tool], tool_choice: { type: 'custom' } }],
    ['tool_choice.allowed_tools', { tools: [tool], tool_choice: { type: 'allowed_tools' } }],
    [
      'tool_choice.allowed_tools.mode',
      { tools: [tool], tool_choice: { type: 'allowed_tools', allowed_tools: { mode: canary, tools: [] } } },
    ],
    [
      'tool_choice.allowed_tools.tools[0].function',
      {
        tools: [tool],
        tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [{ type: 'function' }] } },
      },
    ],
    [
      'messages[0].tool_calls[0].custom',
      { messages: [{ role: 'assistant', tool_calls: [{ id: 'call_1', type: 'custom' }] }] },
    ],
    ['messages[0].content[1].video_url', part({ type: 'video_url' })],
    ['tools[0].function.name', { tools: [{ type: 'function', function: { name: '' } }] }],
    ['tools[0].function.parameters', { tools: [{ type: 'function', function: { name: 'a', parameters: canary } }] }],
    ['tool_choice', { tools: [tool], tool_choice: 5 }, { tools: [tool], tool_choice: canary }],
    ['parallel_tool_calls', { parallel_tool_calls: 'no' }],
    ['response_format', { response_format: 'json_object' }, { response_format: [] }],
    ['response_format.type', { response_format: {} }, { response_format: { type: canary } }],
    ['user', { user: 5 }],
    ['metadata', { metadata: canary }, { metadata: [] }],
  ]
  const rows = scenarios.flatMap(([param, ...faults]) => faults.map((fault) => ({ param, fault, text: shown(fault) })))

  test.each(rows)('a fault of $param is a 400: $text', async ({ param, fault }) => {
    const json = { ...ask(canary, { character: 'Fern' }), ...fault }
    const response = await service.request('/chat/completions', { json })
    expect(response.status).toBe(400)
    const error = await readChatError(response)
    expect(error).toMatchObject({ type: 'invalid_request_error', param })
    expect(error.message).toContain(`"${param}"`)
    expect(error.message).toMatch(/^[A-Z].+\.$/)
    expect(error.message).not.toContain(canary)
    expect(response.headers.get('x-model')).toBeNull()
    expect(response.headers.get('x-character')).toBeNull()
  })

  function shown(fault: Readonly<Record<string, unknown>>): string {
    const text = JSON.stringify(fault)
    return text.length > 100 ? `${text.slice(0, 100)}…` : text
  }
})
