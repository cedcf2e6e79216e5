import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { refusedParameters, removedParameters } from '../../src/openai/refused-parameters.ts'
import { readChatError } from '../support/chat.ts'
import { often } from '../support/often.ts'
import { textOf } from '../support/operations.ts'
import { openStoresOf } from '../support/test-database.ts'
import { completion, json, pieces, streamOf } from '../support/upstream.ts'
import { service, upstream, upstreamServiceForThisFile } from '../support/upstream-service.ts'

const messages = [{ role: 'user', content: 'Hello' }]
const canary = 'canary.example'
const tool = { type: 'function', function: { name: 'look' } }

/** Keys with a list of models: of the key itself, and of its account. */
let listed: readonly string[]

upstreamServiceForThisFile((url) => {
  const openAi = { adapter: 'openai', baseUrl: `${url}/v1`, retries: 0 }
  const set = {
    chat_template: 'set',
    provider: { order: ['set'] },
    tools: [{ ...tool, server_url: 'https://set.example' }],
  }
  return {
    understudy: { adapter: 'understudy' },
    m: openAi,
    'prefix/*': openAi,
    claude: {
      adapter: '@ai-sdk/anthropic',
      baseUrl: `${url}/v1`,
      apiKey: 'sk-operators-own',
      model: 'claude',
    },
    allowing: { ...openAi, params: { allow: ['chat_template', 'aws_*', 'server_url', 'langfuse_host', 'models'] } },
    setting: { ...openAi, params: { set } },
    defaulting: { ...openAi, defaults: set },
    dropping: { ...openAi, params: { drop: ['chat_template', 'provider', 'server_url'] } },
    moving: { ...openAi, params: { rename: { chat_template: 'template' }, drop: ['chat_template'] } },
    both: { fallback: ['m', 'allowing'] },
    neither: { fallback: ['m', 'claude', 'understudy'] },
  }
})

beforeAll(async () => {
  const stores = await openStoresOf(service.dataDirectory)
  const models = ['m', 'allowing', 'dropping', 'setting', 'defaulting']
  await stores.access.createAccount('of the key')
  await stores.access.createAccount('of the account', {}, models)
  listed = await Promise.all([
    stores.access.createKey({ account: 'of the key', scopes: ['chat'], models }),
    stores.access.createKey({ account: 'of the account', scopes: ['chat'] }),
  ]).then((keys) => keys.map(({ secret }) => secret))
  await stores.close()
})

/** The routes with a body that becomes a request to a model. */
const routes = [
  ['/chat/completions', { messages }],
  ['/chat/completions', { messages, stream: true }],
  ['/chat/prompt', { messages }],
  ['/responses', { input: 'Hello' }],
  ['/responses', { input: 'Hello', stream: true }],
] as const

function post(body: object, key = service.key, path = '/chat/completions'): Promise<Response> {
  const conversation = path === '/responses' ? { input: 'Hello' } : { messages }
  return service.request(path, { json: { ...conversation, ...body }, headers: { authorization: `Bearer ${key}` } })
}

async function expectRefusal(response: Response, param: string): Promise<void> {
  expect(response.status).toBe(400)
  const error = await readChatError(response)
  expect(error).toMatchObject({ code: 'refused_parameter', param })
  expect(error.message).toContain(`"${param}"`)
  expect(error.message).not.toContain(canary)
  expect(upstream.calls).toEqual([])
}

/** Whether the upstream got a request with these fields. */
function expectSent(fields: object): void {
  expect(upstream.calls.map(({ body }) => body)).toMatchObject([fields])
}

const always = [
  ...['user_config', 'custom_llm_provider', 'model_list', 'context_window_fallbacks', 'headers', 'vertex_credentials'],
  ...['vertex_project', 'aws_access_key_id', 'aws_bedrock_runtime_endpoint', 'azure_ad_token', 'kv_transfer_params'],
  ...['bootstrap_host', 'data_sources', 'dataSources', 'lora', 'lora_path', 'lora_request', 'chat_template'],
  ...['logits_processors', 'custom_logit_processor', 'server_url', 'mcp_servers', 'adapter_source', 'langfuse_host'],
]
const choosing = [
  'models',
  'fallbacks',
  'route',
  'provider',
  'plugins',
  'draft_model',
  'preset',
  'providerOptions',
  'deployment_id',
]

describe('parameters that choose a host, a credential or code', () => {
  test.each(always)('are a 400 on every route, whatever their value: %s', async (name) => {
    for (const [path, body] of routes) {
      await expectRefusal(await post({ model: 'm', ...body, [name]: canary }, service.key, path), name)
    }
    for (const value of ['', 0, false, [], {}, [{ url: `https://${canary}` }]]) {
      await expectRefusal(await post({ model: 'm', [name]: value }), name)
    }
  })

  test.each(['understudy', 'claude', 'prefix/some', 'neither'])(
    'are a 400 for every kind of model: %s',
    async (model) => {
      for (const stream of [false, true])
        await expectRefusal(await post({ model, stream, chat_template: canary }), 'chat_template')
    },
  )

  test.each(always)('pass if they are null: %s', async (name) => {
    for (const key of [service.key, ...listed]) {
      expect((await post({ model: 'm', [name]: null }, key)).status).toBe(200)
    }
    expect((await post({ model: 'm', tools: [{ ...tool, server_url: null }] })).status).toBe(200)
  })

  const inside: readonly (readonly [param: string, fields: object])[] = [
    ['tools[1].server_url', { tools: [tool, { ...tool, server_url: `https://${canary}` }] }],
    ['tools[0].mcp.transport[1].server_url', { tools: [{ ...tool, mcp: { transport: [1, { server_url: canary }] } }] }],
    ['tools[0].headers', { tools: [{ ...tool, headers: { authorization: canary } }] }],
    ['tools[0].custom.base_url', { tools: [{ ...tool, custom: { name: 'x', base_url: canary } }] }],
    ['chat_template_kwargs.chat_template', { chat_template_kwargs: { enable_thinking: true, chat_template: canary } }],
    ['vllm_xargs.kv_transfer_params', { vllm_xargs: { kv_transfer_params: canary } }],
    ['metadata.langfuse_host', { metadata: { langfuse_host: canary } }],
    ['providerOptions.gateway.byok', { providerOptions: { gateway: { byok: { openai: [{ apiKey: canary }] } } } }],
  ]
  test.each(inside)('are a 400 inside of other parameters: %s', async (param, fields) => {
    for (const stream of [false, true]) await expectRefusal(await post({ model: 'm', stream, ...fields }), param)
    if (!('tools' in fields))
      await expectRefusal(await post({ model: 'm', ...fields }, service.key, '/responses'), param)
  })

  test('are a 400 inside of a tool of an unknown type', async () => {
    const response = await post({
      model: 'm',
      tools: [{ type: 'mcp', server_label: 'x', server_url: `https://${canary}` }],
    })
    expect(response.status).toBe(400)
    expect((await readChatError(response)).param).toMatch(/^tools\[0\]\./)
    expect(upstream.calls).toEqual([])
  })

  test('are a 400 in capital letters, since servers in Go read names in any case', async () => {
    for (const name of ['Chat_Template', 'LORA_PATH', 'Api_Base', 'chat_template'.replace('t', 'T')]) {
      await expectRefusal(await post({ model: 'm', [name]: canary }), name)
    }
    for (const name of ['Model', 'MESSAGES', 'N', 'ſtream', 'max_toKens']) {
      await expectRefusal(await post({ model: 'm', [name]: 'x' }), name)
    }
  })

  test('have a short name in the error, and only so many names are looked through', async () => {
    await expectRefusal(await post({ model: 'm', [`aws_${'a'.repeat(9000)}`]: 1 }), 'aws_*')
    await expectRefusal(
      await post({ model: 'm', tools: [{ ...tool, ['a'.repeat(9000)]: { server_url: 1 } }] }),
      'server_url',
    )
    const many = Object.fromEntries(Array.from({ length: 6000 }, (_, index) => [`a${index}`, 1]))
    const error = await readChatError(await post({ model: 'm', metadata: many }))
    expect(error).toMatchObject({ code: 'invalid_field', param: 'metadata' })
  })

  test('are the same at any depth of a tool, and never in the schema of its function', async () => {
    const path = fc.array(fc.constantFrom('a', 'b', 'parameters', 'type2', 0), { maxLength: 6 })
    const name = fc.constantFrom(...refusedParameters.filter((each) => !each.endsWith('*')))
    await fc.assert(
      fc.asyncProperty(path, name, fc.boolean(), async (places, refusedName, isSchema) => {
        const value = places.reduceRight<unknown>((inner, place) => (place === 0 ? [inner] : { [place]: inner }), {
          [refusedName]: canary,
        })
        const sent = isSchema
          ? { type: 'function', function: { name: 'f', parameters: { value } } }
          : { ...tool, value }
        const response = await post({ model: 'm', tools: [sent] })
        expect(response.status).toBe(isSchema || choosing.includes(refusedName) ? 200 : 400)
      }),
      { numRuns: often(100) },
    )
  })
})

describe('parameters that choose another model or provider', () => {
  test.each(choosing)(
    'are a 400 for a key or an account with a list of models, and pass for all others: %s',
    async (name) => {
      for (const key of listed) {
        for (const [path, body] of routes) {
          await expectRefusal(await post({ model: 'm', ...body, [name]: ['dear'] }, key, path), name)
        }
      }
      expect((await post({ model: 'm', [name]: ['dear'] })).status).toBe(200)
      expectSent({ [name]: ['dear'] })
      upstream.answer(pieces(streamOf('one two')))
      expect((await post({ model: 'm', stream: true, [name]: ['dear'] }, service.key, '/responses')).status).toBe(200)
    },
  )

  test('have free names inside of metadata and tools', async () => {
    const fields = {
      metadata: { models: 'x', provider: 'y', backend: 'z', headers: 'h' },
      tools: [{ ...tool, route: 1 }],
    }
    expect((await post({ model: 'm', ...fields }, listed[0])).status).toBe(200)
    expectSent(fields)
  })
})

describe('what the operator decides', () => {
  test('names in params.allow pass, at any place and for every key, and no others', async () => {
    const fields = {
      chat_template: 'x',
      aws_region_name: 'y',
      models: ['z'],
      tools: [{ ...tool, server_url: 'https://a.example' }],
      metadata: { langfuse_host: 'https://a.example' },
    }
    for (const key of [service.key, ...listed]) {
      upstream.calls.length = 0
      expect((await post({ model: 'allowing', ...fields }, key)).status).toBe(200)
      expectSent(fields)
    }
    upstream.calls.length = 0
    await expectRefusal(await post({ model: 'allowing', ...fields, lora: [] }), 'lora')
    await expectRefusal(await post({ model: 'allowing', provider: {} }, listed[0]), 'provider')
  })

  test('a fallback list asks the first model that allows the parameter', async () => {
    const response = await post({ model: 'both', chat_template: 'x' })
    expect([response.status, response.headers.get('x-model')]).toEqual([200, 'allowing'])
    expectSent({ chat_template: 'x' })
    upstream.calls.length = 0
    await expectRefusal(await post({ model: 'both', lora: [] }), 'lora')
  })

  test.each(['setting', 'defaulting'])('its own values are not checked: %s', async (model) => {
    for (const key of [service.key, ...listed]) {
      upstream.calls.length = 0
      expect((await post({ model }, key)).status).toBe(200)
      expectSent({ chat_template: 'set', provider: { order: ['set'] }, tools: [{ server_url: 'https://set.example' }] })
    }
  })

  test('its values in params.set replace those of a caller, who may then send them', async () => {
    const sent = { model: 'setting', chat_template: canary, provider: canary, tools: [{ ...tool, server_url: canary }] }
    expect((await post(sent, listed[0])).status).toBe(200)
    expect(JSON.stringify(upstream.calls.map(({ body }) => body))).not.toContain(canary)
    upstream.calls.length = 0
    await expectRefusal(await post({ ...sent, model: 'defaulting' }), 'chat_template')
  })

  test('parameters in params.drop are left out and named, only at the top and under their own name', async () => {
    const response = await post({ model: 'dropping', chat_template: canary, provider: canary }, listed[0])
    expect([response.status, response.headers.get('x-ignored-params')]).toEqual([200, 'chat_template,provider'])
    expect(JSON.stringify(upstream.calls.map(({ body }) => body))).not.toContain(canary)
    upstream.calls.length = 0
    await expectRefusal(
      await post({ model: 'dropping', tools: [{ ...tool, server_url: canary }] }),
      'tools[0].server_url',
    )
    await expectRefusal(await post({ model: 'moving', chat_template: canary }), 'chat_template')
  })
})

describe('all other parameters', () => {
  const honest = {
    chat_template_kwargs: { enable_thinking: false },
    reasoning: { effort: 'low', max_tokens: 100 },
    include_reasoning: true,
    transforms: ['middle-out'],
    usage: { include: true },
    guided_json: { type: 'object', properties: { headers: { type: 'string' }, server_url: {} } },
    guided_regex: 'a+',
    guided_choice: ['a', 'b'],
    guided_grammar: 'root ::= "a"',
    guided_decoding_backend: 'outlines',
    structured_outputs: { choice: ['a'] },
    grammar: 'root ::= "a"',
    json_schema: { type: 'object' },
    samplers: ['top_k', 'temperature'],
    cache_prompt: true,
    id_slot: 1,
    keep_alive: '5m',
    options: { num_ctx: 4096 },
    think: true,
    ttl: 300,
    service_tier: 'flex',
    metadata: { session: '1' },
    mm_processor_kwargs: { fps: 1 },
    documents: [{ title: 'a', text: 'b' }],
  }

  test('pass on as they are, for keys with and without a list of models', async () => {
    for (const key of [service.key, ...listed]) {
      for (const stream of [false, true]) {
        upstream.calls.length = 0
        upstream.answer(stream ? pieces(streamOf('one')) : json(completion('Hello there.')))
        const response = await post({ model: 'm', stream, ...honest }, key)
        expect([response.status, response.headers.get('x-ignored-params')]).toEqual([200, null])
        await response.text()
        expectSent(honest)
      }
    }
  })

  test.each(Object.entries(honest))('pass through the Responses API too: %s', async (name, value) => {
    const response = await post({ model: 'm', [name]: value }, listed[0], '/responses')
    expect(response.status).toBe(200)
    expect(upstream.calls).toHaveLength(1)
  })
})

test('docs/models.md names all refused parameters', () => {
  const text = textOf('docs/models.md')
  const names = [...refusedParameters, ...removedParameters]
  expect(names.filter((name) => !text.includes(`\`${name}\``))).toEqual([])
})
