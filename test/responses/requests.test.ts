import { describe, expect, test } from 'vitest'
import { readChatError } from '../support/chat.ts'
import { serviceForThisTest } from '../support/service.ts'
import { chunkText, completion, json, pieces, sse } from '../support/upstream.ts'
import { eachOffset, onlyCall, service, upstream, upstreamServiceForThisFile } from '../support/upstream-service.ts'

/* The chat request that a model gets for a request of the Responses API, and refusals. */

upstreamServiceForThisFile()

function post(body: Readonly<Record<string, unknown>>, key?: string) {
  const sent = { model: 'gpt-test', input: 'Hello', ...body }
  return service.request('/responses', {
    json: sent,
    ...(key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } }),
  })
}

const user = { role: 'user', content: 'Hello' }
const schema = { type: 'object', properties: {} }
const picture = 'data:image/png;base64,iVBORw0KGgo='
const call = { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{}' }

/** An input with one part of this type. */
const partOf = (type: string) => ({ input: [{ role: 'user', content: [{ type, text: 'x' }] }] })

describe('a model gets', () => {
  test.each<{ what: string; sent: Record<string, unknown>; asked: Record<string, unknown>; ignored?: string }>([
    { what: 'a text', sent: {}, asked: { messages: [user] } },
    {
      what: 'instructions first',
      sent: { instructions: 'Be brief.' },
      asked: { messages: [{ role: 'system', content: 'Be brief.' }, user] },
    },
    {
      what: 'messages of every role, with a type and without',
      sent: {
        input: [
          { role: 'developer', content: 'A' },
          { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'B' }] },
          { role: 'assistant', content: [{ type: 'output_text', text: 'C' }] },
          { role: 'assistant', content: [{ type: 'refusal', refusal: 'D' }] },
          { role: 'user', content: 'E' },
        ],
      },
      asked: {
        messages: [
          { role: 'developer', content: 'A' },
          { role: 'user', content: 'B' },
          { role: 'assistant', content: 'C' },
          { role: 'assistant', content: null, refusal: 'D' },
          { role: 'user', content: 'E' },
        ],
      },
    },
    {
      what: 'pictures and files',
      sent: {
        input: [
          {
            role: 'user',
            content: [
              { type: 'input_text', text: 'Look' },
              { type: 'input_image', image_url: picture, detail: 'low' },
              { type: 'input_file', file_data: picture, filename: 'a.png' },
            ],
          },
        ],
      },
      asked: {
        messages: [
          {
            role: 'user',
            content: [
              { type: 'text', text: 'Look' },
              { type: 'image_url', image_url: { url: picture, detail: 'low' } },
              { type: 'file', file: { file_data: picture, filename: 'a.png' } },
            ],
          },
        ],
      },
    },
    {
      what: 'tool calls as a part of the message before them, and their results',
      sent: {
        input: [
          user,
          { role: 'assistant', content: 'Let me see.' },
          call,
          { ...call, call_id: 'c2' },
          { type: 'function_call_output', call_id: 'c1', output: 'dry' },
          { type: 'function_call_output', call_id: 'c2', output: [{ type: 'input_text', text: 'wet' }] },
        ],
      },
      asked: {
        messages: [
          user,
          {
            role: 'assistant',
            content: 'Let me see.',
            tool_calls: [
              { id: 'c1', type: 'function', function: { name: 'f', arguments: '{}' } },
              { id: 'c2', type: 'function', function: { name: 'f', arguments: '{}' } },
            ],
          },
          { role: 'tool', tool_call_id: 'c1', content: 'dry' },
          { role: 'tool', tool_call_id: 'c2', content: 'wet' },
        ],
      },
    },
    {
      what: 'tools, one of them to be called',
      sent: {
        tools: [{ type: 'function', name: 'f', description: 'D', parameters: schema, strict: true }],
        tool_choice: { type: 'function', name: 'f' },
        parallel_tool_calls: false,
      },
      asked: {
        tools: [{ type: 'function', function: { name: 'f', description: 'D', parameters: schema, strict: true } }],
        tool_choice: { type: 'function', function: { name: 'f' } },
        parallel_tool_calls: false,
      },
    },
    {
      what: 'custom tools, one of them to be called, their calls and results',
      sent: {
        tools: [
          {
            type: 'custom',
            name: 'sql',
            description: 'D',
            format: { type: 'grammar', syntax: 'lark', definition: 'x' },
          },
          { type: 'custom', name: 'say', format: { type: 'text' } },
        ],
        tool_choice: { type: 'custom', name: 'sql' },
        input: [
          user,
          { type: 'custom_tool_call', call_id: 'c1', name: 'sql', input: 'SELECT 1' },
          { type: 'custom_tool_call_output', call_id: 'c1', output: '1' },
        ],
      },
      asked: {
        tools: [
          {
            type: 'custom',
            custom: {
              name: 'sql',
              description: 'D',
              format: { type: 'grammar', grammar: { syntax: 'lark', definition: 'x' } },
            },
          },
          { type: 'custom', custom: { name: 'say', format: { type: 'text' } } },
        ],
        tool_choice: { type: 'custom', custom: { name: 'sql' } },
        messages: [
          user,
          {
            role: 'assistant',
            content: null,
            tool_calls: [{ id: 'c1', type: 'custom', custom: { name: 'sql', input: 'SELECT 1' } }],
          },
          { role: 'tool', tool_call_id: 'c1', content: '1' },
        ],
      },
    },
    {
      what: 'no tool choice without tools',
      sent: { tools: [], tool_choice: 'auto', parallel_tool_calls: true },
      asked: {},
    },
    {
      what: 'parameters that chat has too, and a temperature over OpenAI’s maximum',
      sent: { temperature: 3, stop: ['x'], seed: 4, presence_penalty: 1, frequency_penalty: -1 },
      asked: { temperature: 3, stop: ['x'], seed: 4, presence_penalty: 1, frequency_penalty: -1 },
    },
    {
      what: 'no field that only chat has; x-ignored-params names them',
      sent: { messages: 'x', max_tokens: {}, max_completion_tokens: -100, n: -5, response_format: 5, logprobs: 'q' },
      asked: {},
      ignored: 'messages,max_tokens,max_completion_tokens,n,logprobs,response_format',
    },
    {
      what: 'only the tools that are allowed',
      sent: {
        tools: [
          { type: 'function', name: 'f' },
          { type: 'function', name: 'g' },
        ],
        tool_choice: { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'g' }] },
      },
      asked: { tools: [{ type: 'function', function: { name: 'g' } }], tool_choice: 'required' },
    },
    {
      what: 'a format, and settings by their names in chat',
      sent: {
        text: { format: { type: 'json_schema', name: 'n', schema, strict: true }, verbosity: 'low' },
        reasoning: { effort: 'high' },
        max_output_tokens: 9,
        temperature: 0.5,
        top_p: 0.9,
        metadata: { a: 'b' },
        top_k: 5,
      },
      asked: {
        response_format: { type: 'json_schema', json_schema: { name: 'n', schema, strict: true } },
        verbosity: 'low',
        reasoning_effort: 'high',
        max_completion_tokens: 9,
        temperature: 0.5,
        top_p: 0.9,
        metadata: { a: 'b' },
        top_k: 5,
      },
    },
    {
      what: 'no field whose value changes nothing',
      sent: { store: false, truncation: 'disabled', include: [], service_tier: 'auto', background: false },
      asked: { messages: [user] },
    },
    {
      what: 'no field that is null',
      sent: Object.fromEntries(
        [
          ...['conversation', 'prompt', 'previous_response_id', 'background', 'store', 'instructions', 'include'],
          ...['tools', 'tool_choice', 'parallel_tool_calls', 'text', 'reasoning', 'max_output_tokens', 'truncation'],
          ...['service_tier', 'stream_options', 'max_tool_calls', 'top_logprobs', 'n', 'max_tokens'],
        ].map((name) => [name, null]),
      ),
      asked: {},
    },
    {
      what: 'no field that cannot be honoured; x-ignored-params names them',
      sent: {
        store: true,
        truncation: 'auto',
        include: ['reasoning.encrypted_content'],
        max_tool_calls: 3,
        reasoning: { effort: 'low', summary: 'auto' },
        input: [{ type: 'reasoning', id: 'rs_1', summary: [] }, user],
      },
      asked: { messages: [user], reasoning_effort: 'low' },
      ignored: 'store,truncation,max_tool_calls,input.reasoning,reasoning.summary',
    },
  ])('from a request of the Responses API $what', async ({ sent, asked, ignored = null }) => {
    upstream.answer(json(completion('Hi.')))
    const response = await post(sent)
    expect(response.status, await response.clone().text()).toBe(200)
    const { model, stream: _stream, ...body } = onlyCall().body
    expect(model).toBe('gpt-test')
    expect(body).toEqual({ messages: [user], ...asked })
    expect(response.headers.get('x-ignored-params')).toBe(ignored)
    expect(await response.json()).toMatchObject({ object: 'response', store: false, status: 'completed' })
  })
})

describe('a request is refused', () => {
  test.each<readonly [param: string, code: string, sent: Record<string, unknown>]>([
    ['previous_response_id', 'unsupported_parameter', { previous_response_id: 'resp_1' }],
    ['conversation', 'unsupported_parameter', { conversation: 'conv_1' }],
    ['prompt', 'unsupported_parameter', { prompt: { id: 'p' } }],
    ['background', 'unsupported_parameter', { background: true }],
    ['tools[0].type', 'unsupported_parameter', { tools: [{ type: 'web_search' }] }],
    ['input[0].content[0].type', 'unsupported_parameter', partOf('constructor')],
    ['input[0].content[0].type', 'unsupported_parameter', partOf('toString')],
    ['input[0].content[0].type', 'unsupported_parameter', partOf('__proto__')],
    ['input', 'invalid_field', { input: [{ type: 'reasoning', id: 'rs_1', summary: [] }] }],
    ['stop', 'invalid_field', { stop: { a: 1 } }],
    ['temperature', 'invalid_field', { temperature: -1 }],
    ['tools[0].name', 'invalid_field', { tools: [{ type: 'custom' }] }],
    [
      'tool_choice.tools',
      'invalid_field',
      {
        tools: [{ type: 'function', name: 'f' }],
        tool_choice: { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'g' }] },
      },
    ],
    ['tool_choice.type', 'unsupported_parameter', { tool_choice: { type: 'file_search' } }],
    ['tools[0].name', 'invalid_field', { tools: [{ type: 'function' }] }],
    ['input[0].type', 'unsupported_parameter', { input: [{ type: 'computer_call' }] }],
    ['input[0].content[0].type', 'unsupported_parameter', { input: [{ role: 'user', content: [{ type: 'x' }] }] }],
    ['input[1].id', 'item_not_found', { input: [user, { type: 'item_reference', id: 'msg_0' }] }],
    ['input[1].id', 'item_not_found', { input: [user, { id: 'msg_0' }] }],
    ['input[0].call_id', 'invalid_field', { input: [{ type: 'function_call', name: 'f' }] }],
    ['input[0].call_id', 'invalid_field', { input: [{ type: 'function_call_output', call_id: 'c9', output: 'x' }] }],
    ['input[0].call_id', 'invalid_field', { input: [{ ...call, call_id: 'c'.repeat(16_001) }] }],
    ['input[1].content', 'invalid_field', { input: [user, { role: 'user', content: null }] }],
    [
      'input[1].content[0].image_url',
      'invalid_field',
      { input: [user, { role: 'user', content: [{ type: 'input_image', image_url: 'file:///etc/passwd' }] }] },
    ],
    [
      'input[0].content[0].file_data',
      'invalid_field',
      { input: [{ role: 'user', content: [{ type: 'input_file', file_data: 'file:///etc/passwd' }] }] },
    ],
    [
      'input[0].content[0].file_url',
      'unsupported_parameter',
      { input: [{ role: 'user', content: [{ type: 'input_file', file_url: 'https://a.example/b' }] }] },
    ],
    ['text.format.name', 'invalid_field', { text: { format: { type: 'json_schema', schema } } }],
    ['input', 'invalid_field', { input: [] }],
    ['max_output_tokens', 'invalid_field', { max_output_tokens: 0 }],
  ])('for %s: %s', async (param, code, sent) => {
    const response = await post(sent)
    expect(response.status).toBe(400)
    const error = await readChatError(response)
    expect(error).toMatchObject({ param, code })
    expect(error.message).toContain(`"${param}"`)
    expect(error.message).not.toMatch(/messages\[/)
    expect(upstream.calls).toHaveLength(0)
  })
})

describe('an output item of a response', () => {
  const itemOf = async (response: Response): Promise<string> => {
    const body: { output: { id: string }[] } = JSON.parse(await response.text())
    return body.output[0]?.id ?? ''
  }

  test('can be referred to by its id', async () => {
    const id = await itemOf(await post({}))
    const second = await post({ input: [user, { type: 'item_reference', id }, user] })
    expect(second.status).toBe(200)
    expect(upstream.calls[1]?.body['messages']).toEqual([user, { role: 'assistant', content: 'Hello there.' }, user])
  })

  test('cannot be referred to if all items of a request have too many characters together', async () => {
    upstream.answer(json(completion('x'.repeat(1_500_000))))
    const reference = { type: 'item_reference', id: await itemOf(await post({})) }
    expect((await post({ input: [reference, reference, user] })).status).toBe(200)
    const error = await readChatError(await post({ input: [reference, reference, reference, user] }))
    expect(error).toMatchObject({ code: 'invalid_field', param: 'input' })
  })

  test('is not kept with store: false', async () => {
    const id = await itemOf(await post({ store: false }))
    const error = await readChatError(await post({ input: [{ type: 'item_reference', id }] }))
    expect(error.message).toContain('store: false')
  })

  test('cannot be referred to by another account', async () => {
    const id = await itemOf(await post({}))
    const other = await service.makeKey('another', ['chat'])
    const error = await readChatError(await post({ input: [{ type: 'item_reference', id }] }, other))
    expect(error.code).toBe('item_not_found')
  })
})

test.each([true, false])('an answer of too many characters is a 502: stream %s', async (stream) => {
  const text = 'x'.repeat(1_100_000)
  const events = sse(chunkText({ content: text }), chunkText({ content: text }), '[DONE]')
  upstream.answer(stream ? pieces([events]) : json(completion(text + text)))
  const response = await post({ stream })
  const said = await response.text()
  expect(said).toContain('more than 2097152 characters')
  expect(said).toContain(stream ? 'server_error' : 'upstream_error')
  expect(response.status).toBe(stream ? 200 : 502)
  expect(said.includes('response.failed')).toBe(stream)
  expect(said.includes('response.completed')).toBe(false)
})

test('a parameter in an upstream’s error has the name that was sent', async () => {
  for (const [param, own] of [
    ['max_completion_tokens', 'max_output_tokens'],
    ['constructor', 'constructor'],
  ]) {
    upstream.answer(json({ error: { message: `The field "${param}" is bad.`, code: 'x', param } }, 400))
    const error = await readChatError(await post({}))
    expect(error).toMatchObject({ param: own, message: `The field "${own}" is bad.` })
  }
})

test('ignored parameters have the names that were sent', async () => {
  const drop = ['max_completion_tokens', 'reasoning_effort', 'response_format', 'verbosity', 'top_p']
  const model = { adapter: 'openai', baseUrl: upstream.url, params: { drop } }
  const dropping = await serviceForThisTest({}, { 'gpt-test': model })
  const sent = {
    ...{ model: 'gpt-test', input: 'Hello', max_output_tokens: 9, top_p: 0.5, reasoning: { effort: 'low' } },
    text: { format: { type: 'json_object' }, verbosity: 'low' },
  }
  const response = await dropping.request('/responses', { json: sent })
  expect(response.headers.get('x-ignored-params')?.split(',').toSorted()).toEqual([
    'max_output_tokens',
    'reasoning.effort',
    'text.format',
    'text.verbosity',
    'top_p',
  ])
})

describe('an odd answer', () => {
  const message = (said: object) => completion('', { choices: [{ index: 0, message: said, finish_reason: 'stop' }] })
  test.each<readonly [what: string, answer: Record<string, unknown>, said: object]>([
    [
      'whose content is in parts',
      message({
        content: [
          { type: 'thinking', thinking: [{ type: 'text', text: 'Hm.' }] },
          { type: 'text', text: 'Hi.' },
        ],
      }),
      { output: [{ content: [{ text: 'Hm.' }] }, { type: 'message', content: [{ text: 'Hi.' }] }] },
    ],
    [
      'whose arguments are an object',
      message({ tool_calls: [{ id: 'c', function: { name: 'f', arguments: { a: 1 } } }] }),
      { output: [{ call_id: 'c', arguments: '{"a":1}' }] },
    ],
    [
      'whose calls have nothing',
      message({ tool_calls: [{ function: { name: 'f' } }, null] }),
      {
        output: [{ call_id: expect.stringMatching(/^call_/), name: 'f', arguments: '' }],
      },
    ],
    [
      'with a call of a custom tool',
      message({ tool_calls: [{ id: 'c', type: 'custom', custom: { name: 'sql', input: 'SELECT 1' } }] }),
      { output: [{ type: 'custom_tool_call', call_id: 'c', name: 'sql', input: 'SELECT 1' }] },
    ],
    [
      'without a model and a time',
      completion('Hi.', { created: '7', model: null }),
      { model: 'gpt-test', created_at: expect.any(Number) },
    ],
    ['at a fraction of a second', completion('Hi.', { created: 7.5 }), { created_at: 7 }],
  ])('%s is a response', async (_what, answer, said) => {
    upstream.answer(json(answer))
    const response = await post({})
    expect(response.status).toBe(200)
    expect(await response.json()).toMatchObject(said)
  })

  test('with malformed calls is streamed to its end, in chat too', async () => {
    const odd = [chunkText({ role: 'assistant', tool_calls: [null] }), chunkText({ tool_calls: 'x', content: [{}] })]
    upstream.answer(pieces([sse(...odd, chunkText({ content: 'Hi.' }), chunkText({}, 'stop'), '[DONE]')]))
    expect(await (await post({ stream: true })).text()).toContain('event: response.completed')
    const json = { model: 'gpt-test', messages: [user], stream: true, stream_options: { include_usage: true } }
    expect(await (await service.request('/chat/completions', { json })).text()).toContain('data: [DONE]')
  })

  test('without a message is a failure, in chat too', async () => {
    upstream.answer(json({ choices: [{ index: 0, text: 'Hi.', finish_reason: 'stop' }] }))
    expect(await readChatError(await post({}))).toMatchObject({ code: 'upstream_error' })
    const chat = await service.request('/chat/completions', { json: { model: 'gpt-test', messages: [user] } })
    expect(await readChatError(chat)).toMatchObject({ code: 'upstream_error' })
  })
})

test('a stream that is cut at any byte before [DONE] is never completed', async () => {
  const bytes = Buffer.from(
    sse(
      chunkText({ role: 'assistant', content: 'Wa' }),
      chunkText({ content: 'ter' }),
      chunkText({}, 'stop'),
      '[DONE]',
    ),
  )
  const enough = bytes.indexOf('data: [DONE]')
  upstream.answer(async (response, asked) => {
    await pieces([bytes.subarray(0, Number(asked.body['offset']))], 'cut')(response, asked)
  })
  await eachOffset(bytes.length, async (offset) => {
    const response = await post({ stream: true, offset })
    const text = await response.text()
    const isComplete = text.includes('"type":"response.completed"')
    expect(isComplete, `at ${offset}`).toBe(offset >= enough)
    if (!isComplete)
      expect(response.status === 502 || text.includes('event: response.failed'), `at ${offset}`).toBe(true)
    expect(text).not.toContain('[DONE]')
  })
})
