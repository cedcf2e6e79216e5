import { describe, expect, test } from 'vitest'
import { readChatError } from '../support/chat.ts'
import { completion, json, pieces, streamOf } from '../support/upstream.ts'
import { service, upstream, upstreamServiceForThisFile } from '../support/upstream-service.ts'

const messages = [{ role: 'user', content: 'Hello' }]
const func = { type: 'function', function: { name: 'look', parameters: { type: 'object', properties: {} } } }

upstreamServiceForThisFile((url) => {
  const once = { retries: 0, breaker: { failures: 0 } }
  const open = { adapter: 'openai', baseUrl: url, ...once }
  const claude = {
    adapter: '@ai-sdk/anthropic',
    baseUrl: url,
    apiKey: 'a-key-of-tests',
    model: 'claude',
    ...once,
  }
  return {
    understudy: { adapter: 'understudy' },
    m: open,
    claude,
    'claude-first': { fallback: ['claude', 'm'] },
    closed: { fallback: ['claude', 'understudy'] },
    renaming: { ...open, roles: { developer: 'system', tool: 'user' } },
    merging: { ...open, roles: { developer: 'system' }, mergeMessages: true },
    'claude-renaming': { ...claude, roles: { system: 'user' } },
    azure: { ...open, baseUrl: `${url}/openai/deployments/x/?api-version=2024-10-21&code=a-code-of-azure` },
    'deployment/*': { ...open, baseUrl: `${url}/d?api-version=2024-10-21` },
    weird: { ...open, defaults: { tools: [{ type: 'web_search' }] }, params: { set: { tool_choice: 'any' } } },
  }
})

function post(body: object, path = '/chat/completions'): Promise<Response> {
  return service.request(path, { json: { model: 'm', messages, ...body } })
}

const call = { id: 'c1', type: 'builtin_function', function: { name: '$web_search', arguments: '{"q":1}' } }
const values: readonly (readonly [what: string, fields: Readonly<Record<string, unknown>>])[] = [
  ['a built-in function', { tools: [{ type: 'builtin_function', function: { name: '$web_search' } }, func] }],
  ['a search', { tools: [{ type: 'web_search', web_search: { enable: true, search_engine: 'std' } }] }],
  ['a tool without a type', { tools: [{ google_search: {} }] }],
  ['a tool in the form of Claude', { tools: [{ name: 'f', input_schema: { properties: { headers: {} } } }] }],
  ['200 tools', { tools: Array.from({ length: 200 }, () => func) }],
  ['the choice of any tool', { tools: [func], tool_choice: 'any' }],
  ['the choice of another type', { tools: [func], tool_choice: { type: 'builtin_function', name: 'x' } }],
  ['a grammar as the format', { response_format: { type: 'grammar', grammar: 'root ::= "a"' } }],
  ['a format that is a text', { response_format: 'json' }],
  ['top_p', { top_p: 1.5 }],
  ['top_p as a text', { top_p: '0.9' }],
  ['a temperature below 0', { temperature: -1 }],
  ['penalties', { presence_penalty: 3, frequency_penalty: -2.5 }],
  ['log probabilities', { logprobs: 5, top_logprobs: 50 }],
  ['17 stops', { stop: Array.from({ length: 17 }, (_, index) => `s${index}`) }],
  ['stops that are tokens', { stop: [[1, 2]] }],
  ['an effort that is an object', { reasoning_effort: { level: 'low' } }],
  ['a user and metadata', { user: 5, metadata: 'a', parallel_tool_calls: 'yes' }],
  [
    'a call of another type',
    {
      messages: [
        ...messages,
        { role: 'assistant', content: null, tool_calls: [call] },
        { role: 'tool', tool_call_id: 'c1', content: '{}' },
      ],
    },
  ],
]

describe('values that only an upstream reads', () => {
  test.each(values)('reach an openai model unchanged: %s', async (_what, fields) => {
    for (const stream of [false, true]) {
      upstream.calls.length = 0
      upstream.answer(stream ? pieces(streamOf('one')) : json(completion('Hello there.')))
      const response = await post({ stream, ...fields })
      expect([response.status, response.headers.get('x-ignored-params')]).toEqual([200, null])
      await response.text()
      expect(upstream.calls.map(({ body }) => body)).toMatchObject([{ ...fields }])
    }
  })

  test.each(values)('are a 400 for other models, and go on to a model that takes them: %s', async (_what, fields) => {
    for (const model of ['understudy', 'claude', 'closed']) {
      for (const path of ['/chat/completions', '/chat/prompt']) {
        const response = await post({ model, ...fields }, path)
        expect(response.status).toBe(400)
        expect(await readChatError(response)).toMatchObject({
          code: expect.stringMatching(/^(?:invalid|missing)_field$/),
        })
      }
    }
    expect(upstream.calls).toEqual([])
    const response = await post({ model: 'claude-first', ...fields })
    expect([response.status, response.headers.get('x-model')]).toEqual([200, 'm'])
  })

  test('may be set by the operator', async () => {
    expect((await post({ model: 'weird' })).status).toBe(200)
    expect(upstream.calls.map(({ body }) => body)).toMatchObject([
      { tools: [{ type: 'web_search' }], tool_choice: 'any' },
    ])
  })

  test.each([
    [
      'tools[0].parameters.api_key',
      { tools: [{ type: 'openrouter:x', parameters: { type: 'object', api_key: 'k' } }] },
    ],
    ['tools[0].web_search.headers', { tools: [{ type: 'web_search', web_search: { headers: {} } }] }],
    ['tools[0].input_schema.server_url', { tools: [{ name: 'f', input_schema: { server_url: 'x' } }] }],
    ['tool_choice.server_url', { tool_choice: { type: 'mcp', server_url: 'x' } }],
    ['response_format.base_url', { response_format: { type: 'remote', base_url: 'x' } }],
  ])('choose no host, credential or code: %s', async (param, fields) => {
    const response = await post(fields)
    expect(response.status).toBe(400)
    expect(await readChatError(response)).toMatchObject({ code: 'refused_parameter', param })
    expect(upstream.calls).toEqual([])
  })

  test('may have any names in the schemas of tools and formats', async () => {
    const properties = { headers: { default: { base_url: 1 } }, api_key: { type: 'object', properties: { lora: {} } } }
    const schema = {
      type: 'object',
      properties,
      $defs: { server_url: {} },
      anyOf: [{ properties }],
      examples: [{ lora: 1 }],
    }
    const fields = {
      tools: [
        { name: 'f', input_schema: schema, input_examples: [{ headers: 1 }] },
        { type: 'x', parameters: schema },
      ],
      response_format: { type: 'structural_tag', structures: [{ schema }] },
    }
    expect((await post(fields)).status).toBe(200)
    expect(upstream.calls.map(({ body }) => body)).toMatchObject([fields])
  })
})

describe('an empty list of tools', () => {
  test.each([
    [{ tools: [] }, {}],
    [{ tools: [], tool_choice: 'auto', parallel_tool_calls: true }, {}],
    [{ tools: [], tool_choice: 'none' }, {}],
    [{ tools: [], tool_choice: 'required' }, { tool_choice: 'required' }],
  ])('is left out: %j', async (fields, left) => {
    for (const stream of [false, true]) {
      upstream.calls.length = 0
      upstream.answer(stream ? pieces(streamOf('one')) : json(completion('Hello there.')))
      const response = await post({ stream, ...fields })
      expect([response.status, response.headers.get('x-ignored-params')]).toEqual([200, null])
      await response.text()
      const { model: _m, messages: _s, stream: _t, stream_options: _o, ...others } = upstream.calls[0]?.body ?? {}
      expect(others).toEqual(left)
    }
  })
})

describe('roles', () => {
  const sent = [
    { role: 'developer', content: 'Be kind.' },
    { role: 'system', content: 'Be short.' },
    ...messages,
    { role: 'assistant', content: null, tool_calls: [{ ...call, type: 'function' }] },
    { role: 'tool', tool_call_id: 'c1', content: '{}' },
  ]

  test.each([1, 10_000])('are renamed, in a small request and in a large one: %i', async (count) => {
    const long = [...sent.slice(0, 2), { role: 'user', content: 'Hello there, you. '.repeat(count) }, ...sent.slice(3)]
    expect((await post({ model: 'renaming', messages: long })).status).toBe(200)
    const [got] = upstream.calls
    expect(got?.body['messages']).toEqual(
      long.map((message, place) => ({ ...message, role: ['system', 'system', 'user', 'assistant', 'user'][place] })),
    )
  })

  test('are renamed before messages are merged', async () => {
    expect((await post({ model: 'merging', messages: sent.slice(0, 3) })).status).toBe(200)
    expect(upstream.calls.map(({ body }) => body['messages'])).toEqual([
      [{ role: 'system', content: 'Be kind.\n\nBe short.' }, ...messages],
    ])
  })

  test('are renamed for every adapter, and in receipts', async () => {
    await (await post({ model: 'claude-renaming', messages: sent.slice(1, 3) })).text()
    expect(upstream.calls[0]?.body).not.toHaveProperty('system')
    const receipt: { messages: unknown } = JSON.parse(
      await (await post({ model: 'renaming', messages: sent.slice(0, 3) }, '/chat/prompt')).text(),
    )
    expect(receipt.messages).toMatchObject([{ role: 'system' }, { role: 'system' }, { role: 'user' }])
  })
})

describe('a query of the address', () => {
  test('goes behind the path of each request', async () => {
    expect((await post({ model: 'azure' })).status).toBe(200)
    await (await service.request('/models')).text()
    await upstream.called(2)
    expect(upstream.calls.map(({ path }) => path)).toEqual([
      expect.stringMatching(
        /\/openai\/deployments\/x\/chat\/completions\?api-version=2024-10-21&code=a-code-of-azure$/,
      ),
      expect.stringMatching(/\/d\/models\?api-version=2024-10-21$/),
    ])
  })

  test('has keys that no error repeats', async () => {
    upstream.answer(json({ error: { message: 'Code a-code-of-azure is not for 2024-10-21.' } }, 400))
    expect(await readChatError(await post({ model: 'azure' }))).toMatchObject({
      message: 'Code … is not for 2024-10-21.',
    })
  })
})

describe('a number that a double would round', () => {
  const big = '9223372036854775807'
  const schema = `{"type":"object","properties":{"id":{"type":"integer","maximum":${big},"enum":[-${big},1e400]}}}`
  const filler = JSON.stringify('Hello there, you. '.repeat(10_000))
  const paths = [
    ['/chat/completions', (text: string) => `"messages":[{"role":"user","content":${text}}]`],
    ['/responses', (text: string) => `"input":${text}`],
  ] as const
  const rows = paths.flatMap(([path, conversation]) =>
    [false, true].flatMap((stream) =>
      ['"Hi"', filler].map((text) => ({ path, conversation, stream, text, size: text.length })),
    ),
  )

  test.each(rows)('reaches the upstream as written: $path, stream $stream, $size', async (row) => {
    const { path, conversation, stream, text } = row
    upstream.answer(stream ? pieces(streamOf('one')) : json(completion('Hello there.')))
    const named = `"name":"f","parameters":${schema}`
    const tool = path === '/responses' ? `{"type":"function",${named}}` : `{"type":"function","function":{${named}}}`
    for (const model of ['m', 'claude']) {
      upstream.calls.length = 0
      const body = `{"model":"${model}","stream":${stream},${conversation(text)},"tools":[${tool}]}`
      const response = await service.request(path, { body, headers: { 'content-type': 'application/json' } })
      await response.text()
      expect(upstream.calls[0]?.text).toContain(`"maximum":${big},"enum":[-${big},1e400]`)
      if (model === 'm') expect(response.status).toBe(200)
    }
  })
})
