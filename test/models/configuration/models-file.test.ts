import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { ConfigError, readConfig } from '../../../src/config.ts'
import { readModels } from '../../../src/models/configuration/models-file.ts'
import { startService } from '../../../src/service.ts'
import { conservatory } from '../../support/command.ts'
import { temporaryFolder } from '../../support/service.ts'

const canary = 'CANARY-0123'
const environment = { KEY: 'the-key', PLACE: 'example.com', EMPTY: '' }
const gpt = { adapter: 'openai', baseUrl: 'https://example.com/v1' }

/** The faults of a `models.json`, without the name of the file. */
function faultsOf(file: unknown): readonly string[] {
  const text = typeof file === 'string' ? file : JSON.stringify(file)
  try {
    readModels(text, environment)
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const lines = error.message.split('\n').filter((line) => line.includes('models.json'))
    return lines.map((line) => line.replace(/^.*?models\.json: /, ''))
  }
}

const $ = (name: string) => `$\{${name}}`

test('a fault repeats the file’s own text, and never a value of the environment', () => {
  const models = { a: { adapter: $('KEY') }, b: { fallback: [$('KEY')] } }
  const faults = faultsOf({ models })
  expect(faults).toHaveLength(2)
  expect(faults[0]).toContain(`models.a.adapter is ${JSON.stringify($('KEY'))}`)
  expect(faults[1]).toContain(`models.b.fallback[0] is ${JSON.stringify($('KEY'))}`)
  for (const fault of faults) expect(fault).not.toContain(environment.KEY)
})

test.each(['constructor', 'toString', '__proto__'])('a property that all objects have is no variable: %s', (name) => {
  expect(faultsOf({ models: { a: { ...gpt, apiKey: $(name) } } })).toEqual([
    expect.stringContaining(`models.a.apiKey names ${$(name)}, which the environment does not have`),
  ])
})

describe('a valid models.json', () => {
  test('is read with all its settings', () => {
    const models = {
      understudy: { adapter: 'understudy' },
      'understudy/slow': { adapter: 'understudy/slow', retries: 0 },
      gpt: {
        ...gpt,
        apiKey: $('KEY'),
        model: 'gpt-5-mini',
        headers: { 'x-a': `${$('KEY')}-${$('PLACE')}`, 'x-b': '$KEY $' },
        timeouts: { connect: 1, firstToken: 2, idle: 3, total: 4 },
        retries: 10,
        breaker: { failures: 0, pause: 1 },
        contextWindow: 400_000,
        defaults: { temperature: 0.5, stop: [$('KEY')], nested: { deep: $('PLACE') } },
        params: {
          set: { top_k: 40, stop: ['x'], max_tokens: 5 },
          rename: { max_tokens: 'max_completion_tokens', top_p: 'p' },
          cap: { max_completion_tokens: 100, n: 2, temperature: 0.7 },
          drop: ['logit_bias', 'tools'],
        },
        input: ['text', 'image'],
        mergeMessages: true,
        roles: { developer: 'system' },
        overflow: 'drop-oldest',
      },
      claude: { adapter: '@ai-sdk/anthropic', model: 'claude', apiKey: $('KEY'), options: {}, providerOptions: {} },
      weights: { adapter: 'llama.cpp', model: './a.gguf', sha256: 'a'.repeat(64), queue: 0, gpu: false },
      'local/*': { adapter: 'openai', baseUrl: `http://${$('PLACE')}:8080/v1` },
      '*': gpt,
      best: { fallback: ['claude', 'next'] },
      next: { fallback: ['gpt', 'understudy'] },
    }
    const read = readModels(`\uFEFF${JSON.stringify({ $schema: 'x', default: 'best', models })}`, environment)
    expect(read.default).toBe('best')
    expect([...read.models.keys()]).toEqual(Object.keys(models))
    expect(read.models.get('gpt')).toStrictEqual({
      ...models.gpt,
      apiKey: 'the-key',
      headers: { 'x-a': 'the-key-example.com', 'x-b': '$KEY $' },
      defaults: { temperature: 0.5, stop: ['the-key'], nested: { deep: 'example.com' } },
    })
    expect(read.models.get('local/*')).toMatchObject({ baseUrl: 'http://example.com:8080/v1' })
    expect(read.models.get('best')).toStrictEqual(models.best)
  })

  test('has its first model as the default if it names no default', () => {
    expect(readModels(JSON.stringify({ models: { a: gpt, b: gpt } }), {}).default).toBe('a')
  })
})

test('an adapter may be any installed package', () => {
  expect(faultsOf({ models: { a: { adapter: 'undici', model: 'm' } } })).toEqual([])
})

test('a models.json with only prefixes has no default', () => {
  const models = { 'local/*': { adapter: 'openai', baseUrl: 'http://127.0.0.1:8080/v1' } }
  expect(readModels(JSON.stringify({ models }), {}).default).toBeUndefined()
  const mixed = { ...models, understudy: { adapter: 'understudy' } }
  expect(readModels(JSON.stringify({ models: mixed }), {}).default).toBe('understudy')
})

describe('an invalid models.json', () => {
  const model = (more: Readonly<Record<string, unknown>>) => ({ models: { a: { ...gpt, ...more } } })
  const fallback = (lists: Readonly<Record<string, readonly string[]>>) => ({
    models: { gpt, ...Object.fromEntries(Object.entries(lists).map(([name, list]) => [name, { fallback: list }])) },
  })
  const params: readonly (readonly [what: string, params: unknown, place: string, problem: string])[] = [
    ['params that are not an object', [canary], '', 'is not valid; give an object.'],
    ['a misspelt change', { drpo: ['a'] }, '.drpo', 'is not a setting of this adapter. Did you mean drop?'],
    ['a cap that is not a number', { cap: { max_tokens: '5' } }, '.cap.max_tokens', 'is "5"; give a number.'],
    ['a cap of no tokens', { cap: { max_tokens: -1 } }, '.cap.max_tokens', 'is not a valid value of this parameter.'],
    ['a cap of half a choice', { cap: { n: 0.5 } }, '.cap.n', 'is not a valid value of this parameter.'],
    ['an empty new name', { rename: { a: '' } }, '.rename.a', 'is ""; give a text that is not empty.'],
    ['a text in place of a list', { drop: 'seed' }, '.drop', 'is "seed"; give a list.'],
    [
      'a drop of messages',
      { drop: ['seed', 'messages'] },
      '.drop[1]',
      'names messages, which the service needs unchanged.',
    ],
    [
      'a model that is set',
      { set: { model: canary } },
      '.set.model',
      'names model, which the service needs unchanged.',
    ],
    [
      'a character that is set',
      { set: { character: 'Fern' } },
      '.set.character',
      'names character, which is never sent upstream.',
    ],
    ['choices that are set to a text', { set: { n: canary } }, '.set.n', 'is not a valid value of this parameter.'],
    [
      'a new name for the stream',
      { rename: { stream: 'x' } },
      '.rename.stream',
      'names stream, which the service needs unchanged.',
    ],
    [
      'the name of the messages',
      { rename: { a: 'messages' } },
      '.rename.a',
      'names messages, which the service needs unchanged.',
    ],
    [
      'a new name of n',
      { rename: { n: 'choices' } },
      '.rename.n',
      'names n, by which the service knows the number of choices in an answer.',
    ],
    ['a new name that is the present name', { rename: { a: 'a' } }, '.rename.a', 'is its present name.'],
    [
      'a new name for unchecked choices',
      { rename: { best_of: 'n' } },
      '.rename.best_of',
      'cannot become n, which the service reads itself.',
    ],
    [
      'a new name for an unchecked number',
      { rename: { a: 'max_tokens' } },
      '.rename.a',
      'cannot become max_tokens, which the service reads itself.',
    ],
    [
      'a new name with which callers could redirect requests',
      { rename: { a: 'base_url' } },
      '.rename.a',
      'cannot become base_url, with which callers could redirect requests.',
    ],
    [
      'a new name that is always refused',
      { rename: { a: 'chat_template' } },
      '.rename.a',
      'cannot become chat_template, with which callers could choose the code, template or weights of the upstream.',
    ],
    [
      'a new name that is refused for some callers',
      { rename: { a: 'models' } },
      '.rename.a',
      'cannot become models, with which callers could choose another model or provider at the upstream.',
    ],
    [
      'a removed parameter that is allowed',
      { allow: ['chat_template', 'api_base'], rename: { a: 'chat_template' } },
      '.allow[1]',
      'names api_base, which no upstream gets from a caller; use "set".',
    ],
  ]
  const faults: readonly (readonly [what: string, file: unknown, ...faults: readonly (string | RegExp)[]])[] = [
    [
      'two parameters with one new name',
      model({ params: { rename: { a: 'c', b: 'c' } } }),
      'models.a.params.rename.a becomes c, and so does another parameter.',
      'models.a.params.rename.b becomes c, and so does another parameter.',
    ],
    ['no object', [canary], 'it must be an object with "models".'],
    ['an empty object', {}, /^models must be an object/],
    ['no models', { models: {} }, /^models must be an object/],
    ['a list of models', { models: [gpt] }, /^models must be an object/],
    [
      'a misspelt section',
      { ...model({}), modles: canary },
      'modles is not a setting; there are default and models. Did you mean models?',
    ],
    [
      'a default that is no model',
      { ...model({}), default: 'oak' },
      'default is "oak"; give the name of one of the models, not of a prefix.',
    ],
    ['a default of another type', { ...model({}), default: 5 }, /^default is 5; give the name of one/],
    [
      'a prefix as the default',
      { models: { 'a/*': gpt }, default: 'a/*' },
      /^default is "a\/\*"; give .+ not of a prefix\.$/,
    ],
    ['a model that is no object', { models: { a: canary } }, 'models.a must be an object.'],
    ['a model without an adapter', { models: { a: {} } }, 'models.a needs an "adapter" or a "fallback".'],
    ['an adapter of another type', model({ adapter: 5 }), 'models.a needs an "adapter" or a "fallback".'],
    ['a star in the middle', { models: { 'a*b': gpt } }, /^models\.a\*b may have a \* only at its end/],
    ['a star without a slash', { models: { x: gpt, 'a*': gpt } }, /^models\.a\* may have a \*/],
    [
      'an unknown understudy',
      model({ adapter: 'understudy/slwo' }),
      /^models\.a\.adapter is "understudy\/slwo", .+ Did you mean understudy\/slow\?$/,
    ],
    ...Object.entries({
      understuddy: 'understudy',
      OpenAI: 'openai',
      'open-ai': 'openai',
      llamacpp: 'llama.cpp',
      'llama-cpp': 'llama.cpp',
      anthropic: '@ai-sdk/anthropic',
      '@ai-sdk/antropic': '@ai-sdk/anthropic',
      '@ai_sdk/mistral': '@ai-sdk/mistral',
      google: '@ai-sdk/google',
    }).map(
      ([adapter, meant]) =>
        [
          `the adapter ${adapter}`,
          { models: { a: { adapter, model: 'm' } } },
          `models.a.adapter is "${adapter}", which is neither an adapter nor an installed package. Did you mean ${meant}?`,
        ] as const,
    ),
    ...['ollama', 'vllm', 'claude', '@canary/nowhere', 'fs', 'node:http', '../main.ts', 'not a name', ''].map(
      (adapter) =>
        [
          `the adapter ${adapter}`,
          { models: { a: { adapter, model: 'm' } } },
          `models.a.adapter is "${adapter}", which is neither an adapter nor an installed package. Give understudy, openai (for any server with an OpenAI-compatible API), llama.cpp, or an installed AI SDK provider such as @ai-sdk/anthropic.`,
        ] as const,
    ),
    [
      'a known provider that is not installed',
      { models: { a: { adapter: '@ai-sdk/mistral', model: 'm' } } },
      'models.a.adapter is "@ai-sdk/mistral", which is not installed. Run "npm install @ai-sdk/mistral".',
    ],
    ['a package without a model', { models: { a: { adapter: '@ai-sdk/google' } } }, 'models.a.model is missing.'],
    ['no address', { models: { a: { adapter: 'openai' } } }, 'models.a.baseUrl is missing.'],
    ['an address of another kind', model({ baseUrl: `ftp://${canary}` }), /^models\.a\.baseUrl is not a plain address/],
    [
      'an address with a fragment',
      model({ baseUrl: `https://x/?a=b#key=${canary}` }),
      /^models\.a\.baseUrl is not a plain address/,
    ],
    [
      "a provider's address with a query",
      { models: { a: { adapter: '@ai-sdk/anthropic', model: 'm', baseUrl: `https://x/?key=${canary}` } } },
      /^models\.a\.baseUrl is not a plain address/,
    ],
    ['an unknown role', model({ roles: { boss: 'system' } }), /^models\.a\.roles\.boss is not a setting/],
    [
      'an unknown name for a role',
      model({ roles: { developer: 'boss' } }),
      /^models\.a\.roles\.developer is "boss"; give/,
    ],
    ['an address that is no URL', model({ baseUrl: 'http://[' }), /^models\.a\.baseUrl is not a plain address/],
    [
      'an address with a password',
      model({ baseUrl: `http://one:${canary}@x/v1` }),
      /^models\.a\.baseUrl is not a plain address/,
    ],
    ['a key that no header can carry', model({ apiKey: `${canary}\n` }), /^models\.a\.apiKey has characters/],
    [
      'a header with a space',
      model({ headers: { 'a b': '1' } }),
      'models.a.headers.a b is not a valid name of an HTTP header.',
    ],
    ['a header of two lines', model({ headers: { a: `${canary}\r\nb: c` } }), /^models\.a\.headers\.a has characters/],
    [
      'a header of the request itself',
      model({ headers: { 'Content-Length': '1' } }),
      'models.a.headers.Content-Length is set by each request.',
    ],
    ['a model without a name', { models: { '': gpt, a: gpt } }, 'models has a model without a name.'],
    ['a list for a prefix', { models: { a: gpt, 'x/*': { fallback: ['a'] } } }, /^models\.x\/\* is a prefix/],
    [
      'a time limit that no timer has',
      model({ timeouts: { total: 2 ** 31 } }),
      'models.a.timeouts.total is 2147483648; give a whole number from 1 to 2147483647.',
    ],
    [
      'a misspelt setting',
      model({ retrys: canary }),
      'models.a.retrys is not a setting of this adapter. Did you mean retries?',
    ],
    ["another adapter's setting", model({ sha256: canary }), 'models.a.sha256 is not a setting of this adapter.'],
    [
      'a misspelt time limit',
      model({ timeouts: { idel: 5 } }),
      'models.a.timeouts.idel is not a setting of this adapter. Did you mean idle?',
    ],
    [
      'a time limit of 0',
      model({ timeouts: { idle: 0 } }),
      /^models\.a\.timeouts\.idle is 0; give a whole number from 1 to/,
    ],
    [
      'a time limit as a text',
      model({ timeouts: { total: '5 s' } }),
      /^models\.a\.timeouts\.total is "5 s"; give a whole number from 1 to/,
    ],
    ['too many retries', model({ retries: 11 }), 'models.a.retries is 11; give a whole number from 0 to 10.'],
    [
      'a secret from the environment',
      model({ retries: $('KEY') }),
      `models.a.retries is "${$('KEY')}"; give a whole number from 0 to 10.`,
    ],
    [
      'weights with half a digest',
      { models: { a: { adapter: 'llama.cpp', model: 'm', sha256: 'AB' } } },
      'models.a.sha256 is "AB"; give the SHA-256 of the file: 64 hex digits in small letters.',
    ],
    ['half a retry', model({ retries: 1.5 }), /^models\.a\.retries is 1\.5; give/],
    [
      'a misspelt breaker',
      model({ breaker: { failure: 1 } }),
      'models.a.breaker.failure is not a setting of this adapter. Did you mean failures?',
    ],
    ['an empty key', model({ apiKey: '' }), /^models\.a\.apiKey is not valid/],
    ['a key that is no text', model({ apiKey: { canary } }), /^models\.a\.apiKey is not valid/],
    ['a header that is no text', model({ headers: { 'x-a': 5 } }), /^models\.a\.headers\.x-a is not valid/],
    [
      'an unknown kind of input',
      model({ input: ['text', 'smell'] }),
      'models.a.input[1] is "smell"; give one of "text", "image", "audio", "video", "file".',
    ],
    ['no kind of input', model({ input: [] }), /^models\.a\.input is not valid/],
    ['an unknown overflow', model({ overflow: 'drop' }), 'models.a.overflow is "drop"; give "drop-oldest".'],
    ['defaults that are no object', model({ defaults: [canary] }), /^models\.a\.defaults is not valid/],
    ['a default for stream', model({ defaults: { stream: true } }), 'models.a.defaults.stream can have no default.'],
    [
      'a default of the wrong type',
      model({ defaults: { n: '2' } }),
      'models.a.defaults.n is not a valid value of this parameter.',
    ],
    ...params.map(
      ([what, value, place, problem]) =>
        [what, model({ params: value }), `models.a.params${place} ${problem}`] as const,
    ),
    [
      'a context window of 0',
      model({ contextWindow: 0 }),
      'models.a.contextWindow is 0; give a whole number from 1 up.',
    ],
    ['a variable that is not set', model({ apiKey: $('NOWHERE') }), /^models\.a\.apiKey names \$\{NOWHERE\}, which/],
    [
      'an empty variable',
      model({ headers: { a: `x${$('EMPTY')}` } }),
      /^models\.a\.headers\.a names \$\{EMPTY\}, which/,
    ],
    [
      'a variable in a list',
      model({ defaults: { stop: ['a', $('NO')] } }),
      /^models\.a\.defaults\.stop\[1\] names \$\{NO\}/,
    ],
    [
      'a fallback to an unknown model',
      fallback({ a: ['gpt', 'gtp'] }),
      'models.a.fallback[1] is "gtp", which is no model of this file. Did you mean gpt?',
    ],
    [
      'a fallback to a prefix',
      { models: { 'x/*': gpt, a: { fallback: ['x/*'] } }, default: 'a' },
      /^models\.a\.fallback\[0\]/,
    ],
    ['an empty fallback', fallback({ a: [] }), /^models\.a\.fallback is not valid/],
    ['a fallback twice', fallback({ a: ['gpt', 'gpt'] }), /^models\.a\.fallback is not valid/],
    [
      'a fallback with another setting',
      { models: { gpt, a: { fallback: ['gpt'], retries: 1 } } },
      /^models\.a\.retries is not a setting/,
    ],
    ['a fallback to itself', fallback({ a: ['gpt', 'a'] }), 'models.a.fallback leads back to itself.'],
    [
      'fallbacks in a circle',
      fallback({ a: ['b'], b: ['gpt', 'c'], c: ['a'] }),
      'models.a.fallback leads back to itself.',
      'models.b.fallback leads back to itself.',
      'models.c.fallback leads back to itself.',
    ],
  ]
  const rows = faults.map(([what, file, ...expected]) => ({ what, file, expected }))
  test.each(rows)(
    'is reported with its path, and without a value that may be a secret: $what',
    ({ file, expected }) => {
      const found = faultsOf(file)
      expect(found).toEqual(expected.map((fault) => (typeof fault === 'string' ? fault : expect.stringMatching(fault))))
      for (const fault of found) expect(fault).toMatch(/^\S.*[.?]$/)
      expect(found.join('\n')).not.toContain(canary)
    },
  )

  test('has all its faults reported together', () => {
    const file = {
      default: 'nobody',
      modles: {},
      models: {
        a: { ...gpt, retrys: 1, timeouts: { idle: -1, totl: 1 }, apiKey: $('NOWHERE') },
        b: { adapter: 'openai', input: ['smell'] },
        c: { fallback: ['d'] },
      },
    }
    expect(faultsOf(file).map((fault) => fault.split(' ')[0])).toEqual([
      'modles',
      'models.a.apiKey',
      'models.a.retrys',
      'models.a.timeouts.totl',
      'models.a.timeouts.idle',
      'models.b.baseUrl',
      'models.b.input[0]',
      'models.c.fallback[0]',
      'default',
    ])
  })

  const syntax: readonly (readonly [text: string, line: number, column: number])[] = [
    ['', 1, 1],
    ['{', 1, 2],
    ['{\n  "models": {\n', 3, 1],
    [`{"a": "${canary}" "b"}`, 1, 21],
    [`{\n  "key": "${canary}",\n}`, 3, 1],
    [`{\n  "a": "${canary}",\n  "b": yes\n}`, 3, 8],
    [`{\n  "a": [1, 2,, "${canary}"]}`, 2, 14],
    ["{'a': 1}", 1, 2],
    ['\uFEFF{"a": x}', 1, 7],
    [`{"a": 1} ${canary}`, 1, 10],
    ['{"a": tru }', 1, 10],
    [`{\n"🌵": "a\n${canary}"}`, 2, 9],
  ]
  test.each(syntax)('is reported with the place where it stops being JSON: %j', (text, line, column) => {
    expect(faultsOf(text)).toEqual([`it is not valid JSON at line ${line}, column ${column}.`])
  })

  test('stops the start, and every fault is reported with its path', async () => {
    const models = { a: { ...gpt, retrys: 1 }, b: { adapter: 'openai' } }
    const folder = temporaryFolder()
    onTestFinished(folder.remove)
    writeFileSync(join(folder.path, 'models.json'), JSON.stringify({ models }))
    const config = readConfig({ PORT: '0', DATA_DIR: folder.path, LOG_LEVEL: 'silent' })
    await expect(startService(config)).rejects.toThrow(/models\.a\.retrys.+models\.b\.baseUrl/s)
    const ended = await conservatory([], { PORT: '0', DATA_DIR: folder.path })
    expect([ended.code, ended.stdout]).toEqual([1, ''])
    expect(ended.stderr).toContain('models.json: models.a.retrys is not a setting of this adapter.')
    expect(ended.stderr).toContain('models.json: models.b.baseUrl is missing.')
    expect(ended.stderr).not.toMatch(/\bat \S+:\d+|listens on/)
  })
})
