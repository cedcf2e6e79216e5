import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { PromptReceipt } from '../../src/chat/receipt.ts'
import { receiptMaker } from '../../src/chat/receipt.ts'
import { loadTokenizer } from '../../src/models/tokenizer.ts'
import { readChatError, readStream } from '../support/chat.ts'
import { fullRequest } from '../support/composed.ts'
import { documentOf } from '../support/kept-cards.ts'
import { cardWithLore, composed, keptOf } from '../support/lore-cards.ts'
import { serviceForThisTest, type TestService, temporaryFolder } from '../support/service.ts'
import { completion, json, pieces, type ScriptedUpstream, streamOf, upstreamForThisTest } from '../support/upstream.ts'

interface Stage {
  readonly service: TestService
  readonly upstream: ScriptedUpstream
  /** Sends a chat request. @returns the upstream's messages, one line for each */
  told(body?: Readonly<Record<string, unknown>>): Promise<readonly string[]>
}

/** A service with this card in its folder, and a scripted upstream. */
async function stage(
  data: Readonly<Record<string, unknown>>,
  {
    model = {},
    environment = {},
  }: { readonly model?: Record<string, unknown>; readonly environment?: Record<string, string> } = {},
): Promise<Stage> {
  const upstream = await upstreamForThisTest(json(completion('Hm.')))
  const { path, remove } = temporaryFolder()
  onTestFinished(remove)
  mkdirSync(join(path, 'characters'))
  writeFileSync(join(path, 'characters', 'moss.json'), JSON.stringify(documentOf(data)))
  const models = {
    up: { adapter: 'openai', baseUrl: upstream.url, retries: 0, ...model },
    understudy: { adapter: 'understudy' },
  }
  const service = await serviceForThisTest({ DATA_DIR: path, ...environment }, models)
  return {
    service,
    upstream,
    async told(body = {}) {
      const sent = { model: 'up', character: 'Moss', messages: [{ role: 'user', content: 'Hi' }], ...body }
      const response = await service.request('/chat/completions', { json: sent })
      if (response.status !== 200) throw new Error(await response.text())
      await response.text()
      const messages = upstream.calls.at(-1)?.body['messages']
      return Array.isArray(messages) ? messages.map(({ role, name, content }) => `${name ?? role}: ${content}`) : []
    },
  }
}

const whole = {
  system_prompt: 'S {{original}}',
  description: 'D of {{char}} for {{user}}',
  personality: 'P',
  scenario: 'C',
  first_mes: 'Hello {{user}}',
  alternate_greetings: ['Other'],
  mes_example: '<START>{{user}}: Q\n{{char}}: A at 10:30',
  post_history_instructions: 'H {{original}}',
  creator_notes: 'NOTES',
  extensions: { depth_prompt: { prompt: 'N', depth: 1, role: 'system' } },
  character_book: { entries: [{ keys: ['/d(o|u)g/i'], content: 'LORE', position: 'before_char', insertion_order: 1 }] },
}

describe('the upstream’s prompt of a card', () => {
  test('4.1 the whole card, in order, streamed or not, on every turn', async () => {
    const { told, upstream, service } = await stage(whole, {
      environment: { SYSTEM_PROMPT: 'O', POST_HISTORY_PROMPT: 'PO' },
    })
    const expected = (turns: readonly string[]) => [
      'system: S O\n\nLORE\n\nD of Moss for Ada\n\nP\n\nC',
      'system: [Example Chat]',
      'example_user: Q',
      'example_assistant: A at 10:30',
      ...turns,
      'system: H PO',
    ]
    const dog = { role: 'user', content: 'My dog' }
    expect(await told({ user_name: 'Ada', messages: [dog] })).toEqual(
      expected(['assistant: Hello Ada', 'system: N', 'user: My dog']),
    )
    const turns = [
      { role: 'assistant', content: 'Hello Ada' },
      dog,
      { role: 'assistant', content: 'Yes?' },
      { role: 'user', content: 'It barks' },
    ]
    const second = expected(['assistant: Hello Ada', 'user: My dog', 'assistant: Yes?', 'system: N', 'user: It barks'])
    expect(await told({ user_name: 'Ada', messages: turns })).toEqual(second)
    upstream.answer(pieces(streamOf('Well well.')))
    const streamed = await service.request('/chat/completions', {
      json: { model: 'up', character: 'Moss', user_name: 'Ada', messages: turns, stream: true },
    })
    expect((await readStream(streamed)).isDone).toBe(true)
    expect(JSON.stringify(upstream.calls.at(-1)?.body['messages'])).toBe(
      JSON.stringify(upstream.calls.at(-2)?.body['messages']),
    )
    expect(JSON.stringify(upstream.calls)).not.toContain('NOTES')
  })

  test('14 greeting and conversation_id are never sent to an upstream', async () => {
    const { told, upstream } = await stage({ ...whole, description: '{{pick:A,B,C,D,E,F,G,H}}' })
    const first = await told({ greeting: 1, conversation_id: 'x' })
    expect(first).toContain('assistant: Other')
    expect(await told({ greeting: 1, conversation_id: 'x' })).toEqual(first)
    expect(Object.keys(upstream.calls.at(-1)?.body ?? {}).sort()).toEqual(['messages', 'model'])
  })

  test('4.3 GET /characters/{name} shows the greetings that prompts have, for a conversation and without one', async () => {
    const { service, told } = await stage({ ...whole, first_mes: '{{random:a,b,c,d}}{{roll:1000000}}, {{user}}' })
    const shown = async (query: string) => {
      const response = await service.request(`/characters/Moss${query}`)
      expect(response.status).toBe(200)
      const { greetings } = JSON.parse(await response.text())
      return `assistant: ${greetings[0].text}`
    }
    const texts = [await shown(''), await shown('?conversation_id=x'), await shown('?conversation_id=y')]
    expect(new Set(texts).size).toBe(3)
    expect(await told()).toContain(texts[0])
    expect(await told({ conversation_id: 'x' })).toContain(texts[1])
    expect(await told({ conversation_id: 'y', greeting: null })).toContain(texts[2])
    expect((await told({ greeting: -1 })).filter((line) => line.startsWith('assistant'))).toEqual([])
    const tooLong = await service.request(`/characters/Moss?conversation_id=${'x'.repeat(201)}`)
    expect([tooLong.status, (await readChatError(tooLong)).param]).toEqual([400, 'conversation_id'])
  })

  test.each([
    [{ greeting: 2 }, 400, 'greeting'],
    [{ greeting: -2 }, 400, 'greeting'],
    [{ greeting: 0.5 }, 400, 'greeting'],
    [{ conversation_id: 'x'.repeat(201) }, 400, 'conversation_id'],
    [{ conversation_id: 5 }, 400, 'conversation_id'],
  ])('14 %j is refused, and nothing is sent', async (body, status, param) => {
    const { service, upstream } = await stage(whole)
    const response = await service.request('/chat/completions', {
      json: { model: 'up', character: 'Moss', messages: [{ role: 'user', content: 'Hi' }], ...body },
    })
    expect([response.status, (await readChatError(response)).param]).toEqual([status, param])
    expect(upstream.calls).toEqual([])
  })

  test('14 with GREETING=never a prompt has no greeting', async () => {
    const { told } = await stage({ first_mes: 'Hello' }, { environment: { GREETING: 'never' } })
    expect(await told()).toEqual([expect.stringMatching(/^system: /), 'user: Hi'])
  })

  test('4.1 a system message at a depth stays at this depth with mergeMessages', async () => {
    const { told } = await stage(
      { first_mes: 'Hello', extensions: { depth_prompt: { prompt: 'N', depth: 1 } } },
      { model: { mergeMessages: true } },
    )
    expect((await told()).map((line) => line.split(':')[0])).toEqual(['system', 'user', 'assistant', 'system', 'user'])
  })
})

describe('4.5 the context of a model', () => {
  const lore = (count: number) => ({
    entries: Array.from({ length: count }, (_none, index) => ({
      constant: true,
      keys: [],
      content: `Fact ${index}: ${'word '.repeat(100)}`,
      insertion_order: index,
    })),
  })

  test('4.5 the reply header counts parts that did not fit, streamed or not', async () => {
    const { service, upstream } = await stage(
      { description: 'PERSONA', character_book: { ...lore(10), token_budget: 350 } },
      { model: { contextWindow: 100_000 } },
    )
    const ask = (stream: boolean) =>
      service.request('/chat/completions', {
        json: { model: 'up', character: 'Moss', messages: [{ role: 'user', content: 'Hi' }], stream },
      })
    const response = await ask(false)
    expect(response.headers.get('x-dropped')).toBe('lore=7, examples=0, messages=0')
    upstream.answer(pieces(streamOf('Well well.')))
    const streamed = await ask(true)
    expect(streamed.headers.get('x-dropped')).toBe('lore=7, examples=0, messages=0')
    await streamed.text()
    expect(JSON.stringify(upstream.calls)).toContain('Fact 9')
    expect(JSON.stringify(upstream.calls)).not.toContain('Fact 0')
  })

  test('4.5 there is no header x-dropped if all parts fitted', async () => {
    const { service } = await stage({ description: 'PERSONA' }, { model: { contextWindow: 100_000 } })
    const response = await service.request('/chat/completions', {
      json: { model: 'up', character: 'Moss', messages: [{ role: 'user', content: 'Hi' }] },
    })
    expect(response.headers.get('x-dropped')).toBeNull()
  })

  test('4.5 a prompt that cannot fit is a 400 with the counts; with drop-oldest, the oldest messages are dropped', async () => {
    const messages = Array.from({ length: 9 }, (_none, index) => ({
      role: index % 2 ? 'assistant' : 'user',
      content: `${index}: ${'word '.repeat(50)}`,
    }))
    const body = { json: { model: 'up', character: 'Moss', messages, max_tokens: 50 } }
    const strict = await stage({ description: 'PERSONA' }, { model: { contextWindow: 300 } })
    const refused = await strict.service.request('/chat/completions', body)
    expect(refused.status).toBe(400)
    const error = await readChatError(refused)
    expect(error.code).toBe('context_length_exceeded')
    expect(error.message).toMatch(/has \d+ tokens and 50 .* 300 in all/)
    expect(strict.upstream.calls).toEqual([])
    const lenient = await stage({ description: 'PERSONA' }, { model: { contextWindow: 300, overflow: 'drop-oldest' } })
    const taken = await lenient.service.request('/chat/completions', body)
    expect([taken.status, taken.headers.get('x-dropped')]).toEqual([
      200,
      expect.stringMatching(/^lore=0, examples=0, messages=[5-7]$/),
    ])
    expect(JSON.stringify(lenient.upstream.calls)).toContain('PERSONA')
    expect(JSON.stringify(lenient.upstream.calls)).toContain('8: word')
  })
})

describe('POST /chat/prompt', () => {
  test('shows the exact messages, tokens by section, and which lore fired or was dropped and why', async () => {
    const book = {
      name: 'Garden',
      entries: [
        { name: 'Dog', keys: ['dog'], content: 'LORE' },
        { name: 'Long', keys: ['dog'], content: 'word '.repeat(500), priority: -1 },
        { keys: ['cat'], content: 'NO' },
      ],
      token_budget: 50,
    }
    const { service, upstream, told } = await stage({ ...whole, description: '{{weather}} D', character_book: book })
    const body = { model: 'up', character: 'Moss', messages: [{ role: 'user', content: 'My dog' }] }
    const response = await service.request('/chat/prompt', { json: body })
    expect(response.status).toBe(200)
    expect(upstream.calls).toEqual([])
    const receipt: PromptReceipt = JSON.parse(await response.text())
    expect(Object.keys(receipt)).toEqual([
      'object',
      'model',
      'character',
      'messages',
      'tokens',
      'lore',
      'dropped',
      'unknown_macros',
      'refused_regexes',
    ])
    expect(receipt).toMatchObject({
      object: 'chat.prompt',
      model: 'up',
      unknown_macros: ['weather'],
      dropped: { lore: 1, examples: 0, messages: 0 },
    })
    // The next receipt is made from the cached card, and must be the same.
    const again = await service.request('/chat/prompt', { json: body })
    expect(await again.json()).toEqual(receipt)
    expect(receipt.character).toMatch(/^Moss@sha256:[0-9a-f]{64}$/)
    expect(receipt.lore).toEqual([
      { entry: 'Dog', book: 'Garden', fired: true, keys: ['dog'], tokens: expect.any(Number) },
      { entry: 'Long', book: 'Garden', fired: false, keys: ['dog'], tokens: expect.any(Number), dropped: 'budget' },
    ])
    expect(receipt.tokens.exact).toBe(false)
    expect(receipt.tokens.sections.map(({ section }) => section)).toEqual(
      expect.arrayContaining([
        'system_prompt',
        'description',
        'examples',
        'greeting',
        'conversation',
        'post_history',
        'depth_note',
      ]),
    )
    expect(response.headers.get('x-dropped')).toBe('lore=1, examples=0, messages=0')
    expect(receipt.messages.map(({ role, name, content }) => `${name ?? role}: ${String(content)}`)).toEqual(
      await told(body),
    )
  })

  test('needs the chat scope, and refuses the same requests as a completion', async () => {
    const { service } = await stage(whole)
    const key = await service.makeKey('other', ['plants:read'])
    const body = { json: { model: 'understudy', messages: [{ role: 'user', content: 'Hi' }] } }
    expect((await service.request('/chat/prompt', { ...body, headers: { authorization: key } })).status).toBe(403)
    expect((await service.request('/chat/prompt', { ...body, headers: { authorization: null } })).status).toBe(401)
    expect((await service.request('/chat/prompt', { json: { model: 'understudy' } })).status).toBe(400)
    expect((await service.request('/chat/prompt', { json: { ...body.json, model: 'nope' } })).status).toBe(404)
    const plain: PromptReceipt = JSON.parse(await (await service.request('/chat/prompt', body)).text())
    expect(plain).toMatchObject({ character: null, messages: body.json.messages, lore: [], tokens: { exact: true } })
  })

  test('withholds the texts of a card that the caller may not read, and not its sections and tokens', async () => {
    const card = cardWithLore([{ name: 'SECRET', keys: ['secret'], content: 'SECRET' }], {}, { description: 'SECRET' })
    const body = { model: 'm', messages: [{ role: 'user' as const, content: 'a secret' }] }
    const composition = composed(card, body.messages)
    const request = fullRequest({
      persona: { name: 'Moss', card: keptOf(card), userName: 'User' },
      messages: body.messages,
      settings: { systemPrompt: '' },
    })
    const makeReceipt = receiptMaker(await loadTokenizer())
    const [hidden, shown] = [false, true].map((isShown): PromptReceipt => {
      const about = { model: 'm', upstreamId: 'm', character: 'Moss', isShown }
      return JSON.parse(Buffer.from(makeReceipt(about, request, composition, composition.messages).json).toString())
    })
    expect(JSON.stringify(hidden)).not.toContain('SECRET')
    expect(JSON.stringify(shown)).toContain('SECRET')
    expect(hidden?.tokens).toEqual(shown?.tokens)
    expect(hidden?.messages.at(-1)).toEqual(body.messages[0])
  })
})
