import { describe, expect, onTestFinished, test } from 'vitest'
import { createFetch } from '../../../src/models/ai-sdk/fetch.ts'
import { toLanguageModel } from '../../../src/models/ai-sdk/language-model.ts'
import { createAiSdkModel } from '../../../src/models/ai-sdk/model.ts'
import { loadProvider } from '../../../src/models/ai-sdk/provider.ts'
import type { AiSdkSettings } from '../../../src/models/configuration/settings.ts'
import { asked, complete, failureFrom, never, stream, textOfStream } from '../../support/ai-sdk.ts'
import { faultsOfCompletion, faultsOfStream } from '../../support/openai-schemas.ts'
import { json, upstreamForThisTest } from '../../support/upstream.ts'

const fakePackage = new URL('../../fixtures/fake-provider/index.js', import.meta.url).href

/** A model of an installed package. Its id begins with the version of the interface that the model implements. */
function fake(model: string, settings: Partial<AiSdkSettings> = {}) {
  const asked: string[] = []
  const load = (name: string) => {
    asked.push(name)
    return import(fakePackage)
  }
  return {
    asked,
    model: createAiSdkModel({ adapter: '@green/fake-provider', model, apiKey: 'fake-key', ...settings }, load),
  }
}

function absent(name: string): Error {
  return Object.assign(new Error(`Cannot find package '${name}' imported from /srv/app/src/x.ts`), {
    code: 'ERR_MODULE_NOT_FOUND',
  })
}

describe('any provider package, by its name', () => {
  test.each(['v4', 'v3'])('is loaded with the first request, and answers (%s)', async (version) => {
    const settings = { headers: { 'x-team': 'green' }, options: { region: 'glasshouse' } }
    const { model, asked: names } = fake(version, { ...settings, baseUrl: 'https://plants.example/v1' })
    expect(names).toEqual([])
    const ignored: string[] = []
    const completion = await complete(
      model,
      asked({ seed: 1, temperature: 0.5, reasoning_effort: 'low' }, (parameter) => ignored.push(parameter)),
    )
    expect(names).toEqual(['@green/fake-provider'])
    expect(faultsOfCompletion(completion)).toEqual([])
    expect(completion.model).toBe(version)
    expect(JSON.parse(completion.choices[0]?.message.content ?? '')).toMatchObject({
      settings: {
        apiKey: 'fake-key',
        baseURL: 'https://plants.example/v1',
        headers: { 'x-team': 'green' },
        region: 'glasshouse',
        fetch: 'function',
      },
      options: {
        prompt: [{ role: 'user', content: [{ type: 'text', text: 'Why are my leaves yellow?' }] }],
        temperature: 0.5,
      },
    })
    // v3 has no field for the reasoning effort.
    expect(ignored.toSorted()).toEqual(version === 'v4' ? ['seed'] : ['reasoning_effort', 'seed'])
    await complete(model, asked())
    expect(names).toHaveLength(1)
  })

  test('streams, without the tools that the provider itself ran and their results', async () => {
    const { chunks, error } = await stream(fake('v4').model, asked({ stream: true }))
    expect(error).toBeUndefined()
    expect(faultsOfStream(chunks)).toEqual([])
    expect(textOfStream(chunks)).toBe('One leaf')
    const pieces = chunks.flatMap(({ choices }) => choices).flatMap(({ delta }) => delta.tool_calls ?? [])
    expect(pieces).toEqual([
      { index: 0, id: 'call_1', type: 'function', function: { name: 'water', arguments: '' } },
      { index: 0, function: { arguments: '{"bed":1}' } },
    ])
    expect(chunks.at(-2)?.choices[0]?.finish_reason).toBe('tool_calls')
  })

  test('a stream without an end is a failure', async () => {
    const { error } = await stream(fake('v4-endless').model, asked({ stream: true }))
    expect(error).toMatchObject({ status: 502, code: 'upstream_error' })
  })

  test('gets files in the form of its interface version', async () => {
    const content = [
      { type: 'image_url' as const, image_url: { url: 'data:image/png;base64,AAAA' } },
      { type: 'image_url' as const, image_url: { url: 'https://pictures.example/fern.png' } },
    ]
    const text = { type: 'file' as const, file: { filename: 'care.txt', file_data: 'SGk=' } }
    const call = { id: 'a', type: 'function' as const, function: { name: 'look', arguments: '{}' } }
    const messages = asked({
      messages: [
        { role: 'user', content },
        { role: 'assistant', tool_calls: [call] },
        { role: 'tool', tool_call_id: 'a', content: [...content.slice(0, 1), text] },
      ],
    })
    const handed = async (version: string) => {
      const completion = await complete(fake(version).model, messages)
      const { options } = JSON.parse(completion.choices[0]?.message.content ?? '')
      return [...options.prompt[0].content, ...options.prompt[2].content[0].output.value]
    }
    const image = { type: 'file', mediaType: 'image/png' }
    expect(await handed('v4')).toEqual([
      { ...image, data: { type: 'data', data: 'AAAA' } },
      { ...image, data: { type: 'url', url: 'https://pictures.example/fern.png' } },
      { ...image, data: { type: 'data', data: 'AAAA' } },
      expect.objectContaining({ mediaType: 'text/plain', filename: 'care.txt' }),
    ])
    expect(await handed('v3')).toEqual([
      { ...image, data: 'AAAA' },
      { ...image, data: 'https://pictures.example/fern.png' },
      { type: 'image-data', mediaType: 'image/png', data: 'AAAA' },
      { type: 'file-data', mediaType: 'text/plain', data: 'SGk=' },
    ])
  })

  test('a package that ignores the signal does not delay the end of a request', async () => {
    for (const [isStreamed, isAtOnce] of [false, true].flatMap(
      (each) =>
        [
          [each, false],
          [each, true],
        ] as const,
    )) {
      const controller = new AbortController()
      if (isAtOnce) controller.abort()
      const answer = isStreamed
        ? stream(fake('v4-deaf').model, asked({ stream: true }), controller.signal).then(({ error }) => error)
        : failureFrom(complete(fake('v4-deaf').model, asked(), controller.signal))
      setTimeout(() => controller.abort(), 20)
      expect(await answer).toMatchObject({ status: 499, code: 'client_gone' })
    }
  })

  test('the messages of its own errors are not repeated', async () => {
    const error = await failureFrom(complete(fake('v4-lost', { apiKey: 'fake-canary-key' }).model, asked()))
    expect(error).toMatchObject({ status: 502, code: 'upstream_error' })
    expect(`${error.message} ${error.cause}`).not.toContain('canary')
  })
})

describe('a package that cannot be used', () => {
  test('because it is not installed is reported with the command that installs it', async () => {
    await expect(loadProvider('@ai-sdk/mistral')).rejects.toThrow(
      'The package "@ai-sdk/mistral" is not installed. Run "npm install @ai-sdk/mistral".',
    )
  })

  test('because it is unknown is reported without a command: the name may be mistyped', async () => {
    await expect(loadProvider('@ai-sdk/not-installed-here')).rejects.toThrow(
      /^The package "@ai-sdk\/not-installed-here" is not installed\.$/,
    )
    await expect(loadProvider('a', async () => Promise.reject(absent('a')))).rejects.toThrow(
      /^The package "a" is not installed\.$/,
    )
    await expect(loadProvider('a', async () => Promise.reject(absent('zod')))).rejects.toThrow(
      /^The package "zod" is not installed\. It is needed by "a"\.$/,
    )
  })

  test('because it fails to load, or is no provider, is reported by its name', async () => {
    await expect(loadProvider('a', async () => Promise.reject(new Error('secret')))).rejects.toThrow(
      /^The package "a" fails to load\.$/,
    )
    await expect(loadProvider('undici')).rejects.toThrow(/"undici" is not an AI SDK provider|has no language models/)
    await expect(loadProvider('a', async () => ({ createSoup: 1 }))).rejects.toThrow(/not an AI SDK provider/)
  })

  test.each<[string, Record<string, unknown>, RegExp]>([
    ['of an older interface', { createA: () => ({ languageModel: () => model('v2') }) }, /"a" speaks v2 .* v4 and v3/],
    ['without language models', { createA: () => ({ images: () => model('v4') }) }, /"a" has no language models/],
    [
      'that refuses its settings',
      {
        createA: () => {
          throw new Error('key fake-canary-key')
        },
      },
      /"a" does not accept its settings. Check its "options"\.$/,
    ],
  ])('%s: one sentence from prepare, and a 502 for a request', async (_case, module, sentence) => {
    const broken = createAiSdkModel({ adapter: 'a', model: 'm', apiKey: 'fake-canary-key' }, async () => module)
    await expect(broken.prepare()).rejects.toThrow(sentence)
    const error = await failureFrom(complete(broken, asked()))
    expect(error).toMatchObject({ status: 502, code: 'upstream_error' })
    expect(`${error.message} ${error.cause}`).not.toContain('canary')
  })

  test('because it is not installed is used by a later request, once it is installed', async () => {
    let isInstalled = false
    const later = createAiSdkModel({ adapter: 'a', model: 'v4' }, async () => {
      if (!isInstalled) throw absent('a')
      return import(fakePackage)
    })
    expect(await failureFrom(complete(later, asked()))).toMatchObject({ status: 502 })
    isInstalled = true
    expect((await complete(later, asked())).model).toBe('v4')
  })

  function model(specificationVersion: string) {
    return { specificationVersion, doGenerate: () => {}, doStream: () => {} }
  }
})

test('of several create functions, the one with the package’s name is used', async () => {
  const made: string[] = []
  const creates = (name: string, provider: unknown) => () => {
    made.push(name)
    return provider
  }
  const provider = { languageModel: () => ({ specificationVersion: 'v4', doGenerate: () => {}, doStream: () => {} }) }
  const module = {
    createAzure: creates('azure', {}),
    createOpenAI: creates('openai', provider),
    createB: creates('b', provider),
  }
  await createAiSdkModel({ adapter: '@ai-sdk/openai', model: 'm' }, async () => module).prepare()
  expect(made).toEqual(['openai'])
})

test('a provider that is a function itself is called', async () => {
  const callable = () => ({ specificationVersion: 'v4', doGenerate: () => {}, doStream: () => {} })
  await createAiSdkModel({ adapter: 'a', model: 'm' }, async () => ({ createA: () => callable })).prepare()
  expect(toLanguageModel({ specificationVersion: 'v4' })).toBeUndefined()
})

test('a missing key is an error for the operator', async () => {
  const model = createAiSdkModel({
    adapter: '@ai-sdk/google',
    model: 'gemini-2.5-flash',
    baseUrl: 'http://127.0.0.1:1/',
  })
  onTestFinished(() => model.close())
  const error = await failureFrom(complete(model, asked()))
  expect(error).toMatchObject({ status: 502, code: 'upstream_auth_error' })
})

test('parameters that are never honoured are known without a request', () => {
  const anthropic = createAiSdkModel({ adapter: '@ai-sdk/anthropic', model: 'm' }).ignoredParameters
  const google = createAiSdkModel({ adapter: '@ai-sdk/google', model: 'm' }).ignoredParameters
  for (const parameter of ['logprobs', 'top_logprobs', 'logit_bias', 'metadata', 'store', 'a_parameter_of_next_year']) {
    expect([parameter, anthropic?.has(parameter), google?.has(parameter)]).toEqual([parameter, true, true])
  }
  for (const parameter of ['model', 'messages', 'stream', 'stream_options', 'n', 'temperature', 'tools', 'stop']) {
    expect([parameter, anthropic?.has(parameter), google?.has(parameter)]).toEqual([parameter, false, false])
  }
  for (const parameter of ['parallel_tool_calls', 'user']) {
    expect([anthropic?.has(parameter), google?.has(parameter)]).toEqual([false, true])
  }
  for (const parameter of ['seed', 'presence_penalty', 'frequency_penalty']) {
    expect([anthropic?.has(parameter), google?.has(parameter)]).toEqual([true, false])
  }
})

describe('the fetch of a package', () => {
  test('only posts, only to the base URL, and follows no redirect', async () => {
    const elsewhere = await upstreamForThisTest(json({}))
    const upstream = await upstreamForThisTest(
      json({ ok: true }),
      (response) => void response.writeHead(307, { location: elsewhere.url }).end(),
    )
    const { fetch, close } = createFetch({ baseUrl: upstream.url })
    onTestFinished(close)
    expect((await fetch(upstream.url, { method: 'POST', body: '{}' })).status).toBe(200)
    expect((await fetch(upstream.url, { method: 'POST', body: '{}' })).status).toBe(307)
    await expect(fetch(upstream.url)).rejects.toThrow(/POST/)
    await expect(fetch(upstream.url, { method: 'GET' })).rejects.toThrow(/POST/)
    await expect(fetch(elsewhere.url, { method: 'POST', body: '{}' })).rejects.toThrow(/base URL/)
    expect(elsewhere.calls).toHaveLength(0)
    expect(upstream.calls).toHaveLength(2)
  })

  test('also sends a body that is no text, with its content type', async () => {
    const upstream = await upstreamForThisTest(json({}))
    const { fetch, close } = createFetch({ baseUrl: upstream.url })
    onTestFinished(close)
    const body = new Blob(['{"plant":"Fern"}'], { type: 'application/json' })
    await fetch(upstream.url, { method: 'POST', body })
    const [call] = upstream.calls
    expect([call?.headers['content-type'], call?.body]).toEqual(['application/json', { plant: 'Fern' }])
  })

  test('no environment variable of a package sends the key elsewhere', async () => {
    const elsewhere = await upstreamForThisTest(json({}))
    const before = process.env['ANTHROPIC_BASE_URL']
    process.env['ANTHROPIC_BASE_URL'] = elsewhere.url
    onTestFinished(() => {
      if (before === undefined) delete process.env['ANTHROPIC_BASE_URL']
      else process.env['ANTHROPIC_BASE_URL'] = before
    })
    const urls: string[] = []
    const model = createAiSdkModel(
      { adapter: '@ai-sdk/anthropic', model: 'claude-sonnet-4-5', apiKey: 'a key' },
      async () => {
        const { createAnthropic } = await import('@ai-sdk/anthropic')
        return {
          createAnthropic: (options: Record<string, unknown>) =>
            createAnthropic({
              ...options,
              fetch: async (url) => {
                urls.push(String(url))
                throw new Error('no network here')
              },
            }),
        }
      },
    )
    await failureFrom(model.complete(asked(), never))
    expect(urls).toEqual(['https://api.anthropic.com/v1/messages'])
    expect(elsewhere.calls).toHaveLength(0)
  })
})
