import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { finishReasons, readChatError, readCompletion, readStream, textOfStream } from '../support/chat.ts'
import { serviceForThisTest, startTestService, type TestService, temporaryFolder } from '../support/service.ts'

const folder = temporaryFolder()
let service: TestService

/** Names of the cards in the operator's folder. */
const ownCards = ['Фёдор Михайлович', '🌱 Росток 👩🏽‍🌾', 'D\'Artagnan & Söhne, 100 % / "größer"', '苔\n藓'] as const

beforeAll(async () => {
  const characters = join(folder.path, 'characters')
  mkdirSync(characters)
  for (const [index, name] of ownCards.entries()) writeFileSync(join(characters, `${index}.json`), cardText(name))
  service = await startTestService({ DATA_DIR: folder.path })
})

afterAll(async () => {
  await service?.close()
  folder.remove()
})

function cardText(name: string): string {
  return JSON.stringify({ spec: 'chara_card_v3', spec_version: '3.0', data: { name, first_mes: 'Hello.' } })
}

function ask(question: string, more: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  return { model: 'understudy', messages: [{ role: 'user', content: question }], ...more }
}

const repotting = 'How do I know when to repot my plant?'

async function complete(more: Readonly<Record<string, unknown>> = {}, path = '/chat/completions') {
  const response = await service.request(path, { json: ask(repotting, { character: 'Fern', ...more }) })
  expect(response.status).toBe(200)
  return readCompletion(response)
}

async function stream(more: Readonly<Record<string, unknown>> = {}) {
  const json = ask(repotting, { character: 'Fern', stream: true, ...more })
  const response = await service.request('/chat/completions', { json })
  expect(response.status).toBe(200)
  return readStream(response)
}

describe('a whole reply', () => {
  test('has every field of the completion object, and nothing else', async () => {
    const start = Math.floor(Date.now() / 1000)
    const response = await service.request('/chat/completions', { json: ask(repotting, { character: 'Fern' }) })

    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(response.headers.get('x-model')).toBe('understudy')
    expect(response.headers.get('x-request-id')).toMatch(/^req_[0-9a-f]{32}$/)
    expect(response.headers.get('x-ignored-params')).toBeNull()
    const completion = await readCompletion(response)
    expect(completion).toStrictEqual({
      id: expect.stringMatching(/^chatcmpl-\w+$/),
      object: 'chat.completion',
      created: expect.any(Number),
      model: 'understudy',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: expect.stringMatching(/\S/), refusal: null },
          logprobs: null,
          finish_reason: 'stop',
        },
      ],
      usage: {
        prompt_tokens: expect.any(Number),
        completion_tokens: expect.any(Number),
        total_tokens: expect.any(Number),
      },
    })
    expect(completion.created).toBeGreaterThanOrEqual(start)
    const { prompt_tokens = 0, completion_tokens = 0, total_tokens = 0 } = completion.usage ?? {}
    expect(Math.min(prompt_tokens, completion_tokens)).toBeGreaterThan(0)
    expect(prompt_tokens + completion_tokens).toBe(total_tokens)
  })

  test('comes from the card, with nothing left of its markup', async () => {
    const completion = await complete({ user_name: 'Ada' })
    const text = completion.choices[0]?.message.content ?? ''
    expect(text).toMatch(/\broots?\b/i)
    expect(text).not.toMatch(/\{\{|<START>|<BOT>|<USER>|Fern:|Ada:|undefined|null/)
  })

  test('takes the system prompt of the character into account when it counts tokens', async () => {
    const alone = await complete({ character: null })
    const played = await complete()
    expect(played.usage?.prompt_tokens ?? 0).toBeGreaterThan(100 + (alone.usage?.prompt_tokens ?? Infinity))
  })
})

describe('a streamed reply', () => {
  test('has the headers of server-sent events and no length', async () => {
    const json = ask(repotting, { character: 'Fern', stream: true })
    const response = await service.request('/chat/completions', { json })
    expect(response.status).toBe(200)
    const headers = Object.fromEntries(response.headers)
    expect(headers).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-store',
      'x-accel-buffering': 'no',
      'x-model': 'understudy',
      'x-character': expect.stringMatching(/^Fern@sha256:/),
      'x-request-id': expect.stringMatching(/^req_/),
    })
    expect(headers).not.toHaveProperty('content-length')
    expect(headers).not.toHaveProperty('content-encoding')
    await response.body?.cancel()
  })

  test('begins with the role, ends with the finish reason and [DONE], and has one id throughout', async () => {
    const streamed = await stream()
    const { chunks } = streamed
    expect(streamed.data.at(-1)).toBe('[DONE]')
    expect(streamed.data.filter((data) => data === '[DONE]')).toHaveLength(1)
    expect(streamed.errors).toEqual([])
    expect(streamed.comments).toEqual([])
    expect(chunks.length).toBeGreaterThan(5)
    expect(chunks.filter(({ choices }) => choices[0]?.delta.role === 'assistant')).toEqual([chunks[0]])
    expect(chunks.filter(({ choices }) => choices[0]?.finish_reason != null)).toEqual([chunks.at(-1)])
    expect(chunks.at(-1)?.choices).toEqual([{ index: 0, delta: {}, logprobs: null, finish_reason: 'stop' }])
    const identities = chunks.map(({ id, object, created, model }) => `${id} ${object} ${created} ${model}`)
    expect(new Set(identities).size).toBe(1)
    expect(identities[0]).toMatch(/^chatcmpl-\w+ chat\.completion\.chunk \d+ understudy$/)
  })

  test('has no usage, unless it was requested', async () => {
    for (const stream_options of [undefined, null, {}, { include_usage: false }, { include_usage: null }]) {
      const { chunks } = await stream({ stream_options })
      expect(chunks.filter(({ usage }) => usage != null)).toEqual([])
      expect(chunks.filter(({ choices }) => choices.length === 0)).toEqual([])
    }
  })

  test('has exactly one usage chunk before [DONE] when it was requested, with the usage of the whole reply', async () => {
    const { chunks, data } = await stream({ stream_options: { include_usage: true }, n: 2 })
    const whole = await complete({ n: 2 })
    expect(chunks.filter(({ usage }) => usage != null)).toEqual([chunks.at(-1)])
    expect(chunks.filter(({ choices }) => choices.length === 0)).toEqual([chunks.at(-1)])
    expect(data.at(-1)).toBe('[DONE]')
    expect(chunks.at(-1)?.usage).toEqual(whole.usage)
  })
})

describe('whole and streamed replies', () => {
  const requests: readonly (readonly [string, Readonly<Record<string, unknown>>])[] = [
    ['a character', {}],
    ['no character', { character: null }],
    ['a name without a card', { character: 'The Unknown 🌵' }],
    ['several choices', { n: 3 }],
    ['a seed', { seed: 7 }],
    ['a stop text', { stop: 'the' }],
    ['few tokens', { max_tokens: 5 }],
    ['few tokens, newly named', { max_completion_tokens: 5 }],
    ['one token', { max_tokens: 1 }],
    ['a user name beyond ASCII', { user_name: 'Żółć 🌿', messages: [{ role: 'user', content: 'Hello!' }] }],
    ['a question beyond ASCII', { messages: [{ role: 'user', content: 'Что с 🪴‍? ' }], character: 'Unknown' }],
    ['text parts', { messages: [{ role: 'user', content: [{ type: 'text', text: repotting }] }] }],
    [
      'a system message',
      {
        messages: [
          { role: 'system', content: 'Be brief.' },
          { role: 'user', content: repotting },
        ],
      },
    ],
  ]
  test.each(requests)('say the same for %s, each time', async (_what, more) => {
    const [whole, again, streamed, streamedAgain] = [
      await complete(more),
      await complete(more, '/v1/chat/completions'),
      await stream(more),
      await stream(more),
    ]

    const texts = whole.choices.map(({ message }) => message.content)
    const ends = whole.choices.map(({ finish_reason }) => finish_reason)
    expect(texts.join('')).not.toBe('')
    expect(again.choices).toEqual(whole.choices)
    expect(again.usage).toEqual(whole.usage)
    expect(again.id).not.toBe(whole.id)
    for (const each of [streamed, streamedAgain]) {
      expect(texts.map((_text, index) => textOfStream(each, index))).toEqual(texts)
      expect(ends.map((_end, index) => finishReasons(each, index))).toEqual(ends.map((end) => [end]))
    }
  })
})

describe('the limits of a reply', () => {
  test.each([1, 2, 8])('n: %i gives as many choices', async (n) => {
    const { choices } = await complete({ n })
    expect(choices.map(({ index }) => index)).toEqual(Array.from({ length: n }, (_, index) => index))
    expect(choices.filter(({ message }) => !message.content)).toEqual([])
  })

  test('without n, and with n null, there is one choice', async () => {
    expect((await complete({ n: null })).choices).toHaveLength(1)
    expect((await complete()).choices).toHaveLength(1)
  })

  test('stop ends the text before the first stop text, which is not part of it', async () => {
    const whole = (await complete()).choices[0]?.message.content ?? ''
    const words = whole.split(' ')
    const [early = '', late = ''] = [words[3], words[6]]
    for (const stop of [` ${early}`, [late, ` ${early}`], ['never said', early, '']]) {
      const [choice] = (await complete({ stop })).choices
      const text = choice?.message.content ?? ''
      expect(whole.startsWith(text)).toBe(true)
      expect(text).not.toContain(early)
      expect(text.trim()).toBe(whole.slice(0, whole.indexOf(early)).trim())
      expect(choice?.finish_reason).toBe('stop')
    }
  })

  test.each(['max_tokens', 'max_completion_tokens'])('%s ends the text after as many tokens', async (name) => {
    const whole = (await complete()).choices[0]?.message.content ?? ''
    for (const most of [1, 2, 9]) {
      const { choices, usage } = await complete({ [name]: most })
      expect(choices[0]?.finish_reason).toBe('length')
      expect(whole.startsWith(choices[0]?.message.content ?? '?')).toBe(true)
      expect(usage?.completion_tokens).toBe(most)
    }
  })

  test('a limit that is not reached changes nothing', async () => {
    const whole = await complete()
    const limited = await complete({ max_tokens: 2 ** 31 - 1, stop: ['never said', '\u0000'] })
    expect(limited.choices).toEqual(whole.choices)
    expect(limited.choices[0]?.finish_reason).toBe('stop')
  })
})

describe('the key', () => {
  const forms: readonly (readonly [string, (key: string) => string])[] = [
    ['raw, without a scheme', (key) => key],
    ['with Bearer', (key) => `Bearer ${key}`],
    ['with the scheme in another case and two blanks', (key) => `bearer  ${key}`],
  ]
  for (const path of ['/chat/completions', '/v1/chat/completions', '/models', '/v1/models']) {
    test.each(forms)(`opens ${path} %s`, async (_what, form) => {
      const json = path.endsWith('models') ? {} : { json: ask('Hello') }
      const response = await service.request(path, { ...json, headers: { authorization: form(service.key) } })
      expect(response.status).toBe(200)
    })

    test(`is needed for ${path}`, async () => {
      const json = path.endsWith('models') ? {} : { json: ask('Hello') }
      for (const authorization of [null, 'cv_wrong', 'Bearer wrong', `Basic ${service.key}`]) {
        const response = await service.request(path, { ...json, headers: { authorization } })
        expect(response.status).toBe(401)
        expect(response.headers.get('www-authenticate')).toBe('Bearer')
        expect((await readChatError(response)).type).toBe('authentication_error')
        expect(response.headers.get('x-model')).toBeNull()
      }
    })
  }
})

describe('x-character', () => {
  const digest = (text: string | Buffer) => createHash('sha256').update(text).digest('hex')
  const fern = readFileSync(new URL('../../data/characters/fern.json', import.meta.url))

  const scenarios: readonly (readonly [what: string, character: string, header: string])[] = [
    ['a starter', 'Fern', `Fern@sha256:${digest(fern)}`],
    ['a starter in another case', 'fERN', `Fern@sha256:${digest(fern)}`],
    ...ownCards.map((name): readonly [string, string, string] => [
      `the card ${JSON.stringify(name)}`,
      name,
      `${encodeURIComponent(name)}@sha256:${digest(cardText(name))}`,
    ]),
    ['a name without a card', 'Nobody', 'Nobody'],
    ['a name without a card, beyond Latin', 'Неизвестный', encodeURIComponent('Неизвестный')],
    ['an emoji without a card', '🌵', '%F0%9F%8C%B5'],
    ['a name with line breaks', 'A\r\nset-cookie: b=c', 'A%0D%0Aset-cookie%3A%20b%3Dc'],
    ['a name of 200 emoji', '🌵'.repeat(200), '%F0%9F%8C%B5'.repeat(200)],
  ]
  test.each(scenarios)('names the character: %s', async (_what, character, header) => {
    for (const stream of [false, true]) {
      const response = await service.request('/chat/completions', { json: ask('Hello', { character, stream }) })
      expect(response.status).toBe(200)
      expect(response.headers.get('x-character')).toBe(header)
      expect(response.headers.get('x-character-unknown')).toBe(header.includes('@sha256:') ? null : 'true')
      expect(response.headers.get('set-cookie')).toBeNull()
      await response.text()
    }
  })

  test.each([undefined, null, '', ' \n'])('is missing when no character is played: %j', async (character) => {
    const response = await service.request('/chat/completions', { json: ask('Hello', { character }) })
    expect(response.status).toBe(200)
    expect(response.headers.get('x-character')).toBeNull()
    expect(response.headers.get('x-character-unknown')).toBeNull()
  })
})

describe('x-ignored-params', () => {
  const scenarios: readonly (readonly [what: string, more: Record<string, unknown>, ignored: string[] | null])[] = [
    ['nothing', {}, null],
    ['what the understudy honours', { max_tokens: 9, n: 2, seed: 1, stop: 'x', user: 'me', user_name: 'Ada' }, null],
    ['parameters without a value', { temperature: null, logprobs: null }, null],
    ['what only a neural model can honour', { temperature: 0.5, top_p: 0.9 }, ['temperature', 'top_p']],
    ['several of them', { logprobs: true, seed: 1, top_logprobs: 2 }, ['logprobs', 'top_logprobs']],
  ]
  test.each(scenarios)('names parameters that cannot be honoured: %s', async (_what, more, ignored) => {
    for (const stream of [false, true]) {
      const response = await service.request('/chat/completions', { json: ask('Hello', { ...more, stream }) })
      expect(response.status).toBe(200)
      expect(response.headers.get('x-ignored-params')?.split(',').sort() ?? null).toEqual(ignored)
      await response.text()
    }
    const receipt = await service.request('/chat/prompt', { json: ask('Hello', more) })
    expect(receipt.headers.get('x-ignored-params')?.split(',').sort() ?? null).toEqual(ignored)
  })
})

describe('CHARACTERS=closed', () => {
  test('refuses unknown names, plays known ones, and does not require a name', async () => {
    const closed = await serviceForThisTest({ CHARACTERS: 'closed' })
    const post = (character: string | null, stream: boolean) =>
      closed.request('/chat/completions', { json: ask('Hello', { character, stream }) })
    for (const stream of [false, true]) {
      const refused = await post('Nobody', stream)
      expect(refused.status).toBe(404)
      expect(refused.headers.get('content-type')).toMatch(/^application\/json/)
      expect(refused.headers.get('x-character')).toBeNull()
      expect(await readChatError(refused)).toMatchObject({ code: 'character_not_found', param: 'character' })
      expect((await post('fern', stream)).status).toBe(200)
      expect((await post(null, stream)).status).toBe(200)
    }
  })
})

describe('models', () => {
  const model = { object: 'model', created: expect.any(Number), owned_by: 'conservatory' }
  const understudy = { id: 'understudy', ...model, description: expect.stringMatching(/^Test double: /) }

  test.each(['', '/v1'])('are listed, and returned one by one, under "%s"', async (prefix) => {
    const list = await service.request(`${prefix}/models`)
    expect(list.status).toBe(200)
    const characters: { data: { name: string; origin: string }[] } = JSON.parse(
      await (await service.request('/characters?limit=100')).text(),
    )
    const played = characters.data.map(({ name, origin }) => ({
      ...model,
      id: `character/${name}`,
      owned_by: origin === 'folder' ? 'operator' : 'conservatory',
    }))
    expect(await list.json()).toStrictEqual({ object: 'list', data: [understudy, ...played], has_more: false })
    const one = await service.request(`${prefix}/models/understudy`)
    expect(one.status).toBe(200)
    expect(await one.json()).toStrictEqual(understudy)
  })

  test.each([
    '/models/gpt-4o',
    '/models/local/llama',
    '/models/local%2Fllama',
    '/models/Understudy',
    '/models/__proto__',
    '/v1/models/%F0%9F%8C%B5',
  ])('GET %s is a 404 that lists the models', async (path) => {
    const response = await service.request(path)
    expect(response.status).toBe(404)
    const error = await readChatError(response)
    expect(error).toMatchObject({ type: 'invalid_request_error', code: 'model_not_found', param: 'model' })
    expect(error.message).toContain('understudy')
  })

  test.each(['gpt-4o', 'UNDERSTUDY', ' understudy', '__proto__', '🌵', 'a'.repeat(500)])(
    'a completion by the unknown model %j is a 404 that lists the models',
    async (model) => {
      for (const stream of [false, true]) {
        const response = await service.request('/chat/completions', { json: ask('Hello', { model, stream }) })
        expect(response.status).toBe(404)
        expect(response.headers.get('content-type')).toMatch(/^application\/json/)
        const error = await readChatError(response)
        expect(error).toMatchObject({ type: 'invalid_request_error', code: 'model_not_found', param: 'model' })
        expect(error.message).toContain('understudy')
      }
    },
  )
})

describe('a schema that asks for too large a value', () => {
  const bomb = { type: 'array', minItems: 100, items: { type: 'string', pattern: '([a-z]{1000}){9}' } }
  const parameters = { required: ['a'], properties: { a: bomb } }
  const tools = [
    { type: 'function', function: { name: 'first' } },
    { type: 'function', function: { name: 'a', parameters } },
  ]
  const choice = { type: 'function', function: { name: 'a' } }

  test.each([
    [
      'response_format.json_schema.schema',
      { response_format: { type: 'json_schema', json_schema: { name: 'a', schema: bomb } } },
    ],
    ['tools[1].function.parameters', { tools, tool_choice: choice }],
  ])('is refused with the name of its field, streamed or not: %s', async (param, more) => {
    for (const stream of [false, true]) {
      const response = await service.request('/chat/completions', { json: ask(repotting, { ...more, stream, n: 8 }) })
      expect(response.status).toBe(400)
      expect(await readChatError(response)).toStrictEqual({
        message: `The schema in "${param}" cannot be filled here: its smallest value is too large. Send a simpler one.`,
        type: 'invalid_request_error',
        param,
        code: 'too_complex',
      })
    }
  })
})
