import { describe, expect, test } from 'vitest'
import { builtInSystemPrompt } from '../../src/characters/prompt/composition.ts'
import { readChatError } from '../support/chat.ts'
import { serviceForThisTest } from '../support/service.ts'
import { pieces, streamOf } from '../support/upstream.ts'
import {
  messages,
  onlyCall,
  post,
  secret,
  service,
  upstream,
  upstreamServiceForThisFile,
} from '../support/upstream-service.ts'

upstreamServiceForThisFile()

describe('the upstream’s request', () => {
  test.each([false, true])('has the upstream’s key, and no fields for Conservatory (stream: %s)', async (stream) => {
    if (stream) upstream.answer(pieces(streamOf('Hello there.')))
    const response = await service.request('/v1/chat/completions', {
      json: { model: 'gpt-test', messages, stream, character: 'Nobody', user_name: 'Ada' },
      headers: { cookie: 'a=b', 'x-forwarded-for': '10.0.0.1', 'openai-organization': 'org', 'user-agent': 'agent' },
    })
    expect(response.status).toBe(200)
    expect(response.headers.get('x-model')).toBe('gpt-test')
    expect(response.headers.get('x-character')).toBe('Nobody')
    await response.text()

    const call = onlyCall()
    expect(call.path).toBe('/v1/chat/completions')
    expect(call.headers.authorization).toBe(`Bearer ${secret}`)
    expect(call.headers['content-type']).toBe('application/json')
    expect(JSON.stringify([call.headers, call.body])).not.toContain(service.key)
    expect(Object.keys(call.headers).sort()).toEqual(
      ['authorization', 'connection', 'content-length', 'content-type', 'host'].filter((name) => name in call.headers),
    )
    expect(call.body).toStrictEqual({
      model: 'gpt-test',
      messages: [
        { role: 'system', content: builtInSystemPrompt.replaceAll('{{char}}', 'Nobody').replaceAll('{{user}}', 'Ada') },
        ...messages,
      ],
      stream,
      // The usage is always requested, since the ledger needs it.
      ...(stream ? { stream_options: { include_usage: true } } : {}),
    })
  })

  test('has no key when no key is configured', async () => {
    const open = await serviceForThisTest({ OPENAI_BASE_URL: `${upstream.url}/` })
    expect((await open.request('/chat/completions', { json: { model: 'm', messages } })).status).toBe(200)
    expect(onlyCall().path).toBe('/v1/chat/completions')
    expect(onlyCall().headers).not.toHaveProperty('authorization')
  })

  test("has the character's system prompt, with the names put in, before the messages", async () => {
    const own = [
      { role: 'system', content: 'Be brief, {{char}}.' },
      { role: 'user', content: '{{user}}: hello' },
    ]
    await post({ character: 'fern', user_name: 'Ada $& {{char}}', messages: own })
    const sent: unknown = onlyCall().body['messages']
    if (!Array.isArray(sent)) throw new Error('no messages')
    // The order: main prompt, the caller's system message, the character, examples, the greeting, the caller's question.
    expect([sent[1], sent.at(-1)]).toEqual(own)
    expect(sent.at(-2).role).toBe('assistant')
    expect(sent.at(-2).content).toContain("You'll be Ada $& {{char}};")
    expect(sent[0].role).toBe('system')
    expect(sent[2].role).toBe('system')
    expect(sent[2].content).toContain('Fern is the botanist who keeps the Conservatory.')
    expect(sent[2].content).toContain('She asks Ada $& {{char}} one good question before she advises')
    expect(sent[2].content).toContain('Observant, unhurried, dry-humoured')
    expect(sent[2].content).toContain('A wet afternoon in the Conservatory.')
    expect(sent[3]).toEqual({ role: 'system', content: '[Example Chat]' })
    expect(new Set(sent.slice(3, -2).map(({ role, name }) => `${role} ${name}`))).toEqual(
      new Set(['system undefined', 'system example_user', 'system example_assistant']),
    )
    const composed = JSON.stringify(sent.slice(0, -2))
    expect(composed).not.toMatch(/\{\{user\}\}|<START>|Mind the hose/)
    expect(composed.replaceAll('Ada $& {{char}}', '').replaceAll('Be brief, {{char}}.', '')).not.toContain('{{')
  })

  test('has only the messages of the caller without a character', async () => {
    for (const character of [undefined, null, '', '  ']) {
      await post({ character })
      expect(upstream.calls.at(-1)?.body).toStrictEqual({ model: 'gpt-test', messages })
    }
  })

  test('has every parameter unchanged, also unknown ones', async () => {
    const more = {
      temperature: 1.25,
      n: 2,
      seed: 9007199254740991,
      stop: ['a', '\n'],
      logit_bias: { '50256': -100 },
      max_tokens: null,
      tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object', x: [1, null] }, y: 1 }, z: 2 }],
      reasoning: { effort: 'low', nested: { deep: [[], {}] } },
      provider_thing: 'on',
      '': 0,
      constructor: 'x',
      user: 'u',
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'a', cache_control: { type: 'ephemeral' } }], mood: 5 },
      ],
    }
    const response = await post(more)
    expect(response.status).toBe(200)
    expect(response.headers.get('x-ignored-params')).toBeNull()
    expect(onlyCall().body).toStrictEqual({ model: 'gpt-test', ...more })
  })

  test('is not sent for the understudy', async () => {
    expect((await post({ model: 'understudy' })).status).toBe(200)
    expect(upstream.calls).toEqual([])
  })

  test.each(['org/model:free', '模型 🌵', 'a b\r\nc'])('has the model id %j, which x-model encodes', async (model) => {
    const response = await post({ model })
    expect(response.status).toBe(200)
    expect(response.headers.get('x-model')).toBe(encodeURIComponent(model))
    expect(onlyCall().body['model']).toBe(model)
  })

  test.each([false, true])('is not sent for a model id with a lone surrogate (stream: %s)', async (stream) => {
    const response = await post({ model: 'gpt-\ud800', stream })
    expect(response.status).toBe(400)
    expect(await readChatError(response)).toMatchObject({ type: 'invalid_request_error', param: 'model' })
    expect(upstream.calls).toEqual([])
  })

  test('is not sent for an invalid request', async () => {
    expect((await post({ n: 1e6 })).status).toBe(400)
    expect((await post({ messages: [] })).status).toBe(400)
    expect(upstream.calls).toEqual([])
  })
})

describe('models', () => {
  test('are the understudy, and all models of the upstream', async () => {
    const list = await service.request('/models')
    expect(await list.json()).toMatchObject({
      data: expect.arrayContaining([expect.objectContaining({ id: 'understudy' })]),
    })
    for (const id of ['understudy', 'org/model:free', '🌵']) {
      const one = await service.request(`/models/${encodeURIComponent(id)}`)
      expect(one.status).toBe(200)
      const owned_by = id === 'understudy' ? 'conservatory' : 'upstream'
      const description = id === 'understudy' ? { description: expect.stringMatching(/^Test double/) } : {}
      expect(await one.json()).toStrictEqual({
        id,
        object: 'model',
        created: expect.any(Number),
        owned_by,
        ...description,
      })
    }
    expect(upstream.calls.filter(({ path }) => path !== '/v1/models')).toEqual([])
  })

  test.each(['/models/', '/v1/models/'])('GET %s, without a name, is a 404', async (path) => {
    const response = await service.request(path)
    expect(response.status).toBe(404)
    expect(await readChatError(response)).toMatchObject({ code: 'unknown_route', param: null })
  })
})
