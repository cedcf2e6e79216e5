import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { PromptReceipt } from '../../src/chat/receipt.ts'
import { readChatError } from '../support/chat.ts'
import { documentOf } from '../support/kept-cards.ts'
import { serviceForThisTest, temporaryFolder } from '../support/service.ts'
import { completion, json, upstreamForThisTest } from '../support/upstream.ts'

const hi = [{ role: 'user', content: 'A tall tree, a lake' }]
const book = (entries: readonly object[], more: object = {}) => ({
  spec: 'lorebook_v3',
  data: { entries, extensions: {}, ...more },
})
const entry = (key: string, content: string, more: object = {}) => ({
  keys: [key],
  content,
  extensions: {},
  enabled: true,
  insertion_order: 0,
  use_regex: false,
  ...more,
})

/** A service with the card Moss in its folder, and an upstream that answers. */
async function stage(data: object, environment: Record<string, string> = {}) {
  const upstream = await upstreamForThisTest(json(completion('Hm.')))
  const { path, remove } = temporaryFolder()
  onTestFinished(remove)
  mkdirSync(join(path, 'characters'))
  writeFileSync(join(path, 'characters', 'moss.json'), JSON.stringify(documentOf({ name: 'Moss', ...data })))
  const models = { up: { adapter: 'openai', baseUrl: upstream.url, retries: 0 } }
  const service = await serviceForThisTest({ DATA_DIR: path, SYSTEM_PROMPT: 'O', ...environment }, models)
  const post = (route: string, body: object) =>
    service.request(route, { json: { model: 'up', character: 'Moss', messages: hi, ...body } })
  return {
    service,
    upstream,
    post,
    /** Sends a request. @returns the upstream's messages, one line for each */
    async told(body: object, route = '/chat/completions'): Promise<readonly string[]> {
      const response = await post(route, body)
      if (response.status !== 200) throw new Error(await response.text())
      await response.text()
      const messages = upstream.calls.at(-1)?.body['messages']
      return Array.isArray(messages) ? messages.map(({ role, content }) => `${role}: ${content}`) : []
    },
    async receipt(body: object, key?: string): Promise<PromptReceipt> {
      const sent = { model: 'up', character: 'Moss', messages: hi, ...body }
      const headers = key === undefined ? {} : { headers: { authorization: key } }
      const response = await service.request('/chat/prompt', { json: sent, ...headers })
      if (response.status !== 200) throw new Error(await response.text())
      return JSON.parse(await response.text())
    },
  }
}

const turns = [
  { role: 'user', content: 'One' },
  { role: 'assistant', content: 'Two' },
  { role: 'user', content: 'Three' },
]

test('the receipt has the regular expressions of the request’s lorebooks that the engine refuses', async () => {
  const { receipt } = await stage({})
  const books = [['/(?<=a)b/', 'oak'], ['/oak\\d/'], ['/(x)\\1/']].map((keys) => ({
    entries: [{ keys, content: 'C', enabled: true, insertion_order: 0, use_regex: true, extensions: {} }],
    extensions: {},
  }))
  expect((await receipt({ lorebooks: books })).refused_regexes).toEqual(['/(?<=a)b/', '/(x)\\1/'])
  expect((await receipt({})).refused_regexes).toEqual([])
})

describe('4.1 a persona', () => {
  const card = {
    description: 'D',
    first_mes: 'Hello',
    character_book: {
      entries: [
        {
          keys: ['gardener'],
          content: 'MATCHED',
          position: 'before_char',
          extensions: { match_persona_description: true },
        },
        { keys: ['gardener'], content: 'NOT', position: 'before_char' },
        { keys: ['tree'], content: 'TREE', position: 'before_char' },
      ],
    },
  }

  test('4.1 is not in the prompt of a later request, also if the operator’s prompt has it and the card repeats that prompt', async () => {
    const environment = { SYSTEM_PROMPT: 'With: {{persona}}.', POST_HISTORY_PROMPT: 'To: {{persona}}.' }
    const repeating = { system_prompt: '{{original}} Calm.', post_history_instructions: '{{original}} Short.' }
    const { told } = await stage(repeating, environment)
    const first = await told({ persona: 'Alice, PIN 1234' })
    expect([first[0], first.at(-1)]).toEqual([
      'system: With: Alice, PIN 1234. Calm.\n\nAlice, PIN 1234',
      'system: To: Alice, PIN 1234. Short.',
    ])
    const second = await told({})
    expect([second[0], second.at(-1)]).toEqual(['system: With: . Calm.', 'system: To: . Short.'])
  })

  test('4.1 stands between the lore and the description, and lore with match_persona_description searches it', async () => {
    const { told, receipt } = await stage(card)
    const body = { persona: '{{user}} is a gardener. {{persona}}', user_name: 'Ada' }
    expect((await told(body))[0]).toBe('system: O\n\nMATCHED\nTREE\n\nAda is a gardener.\n\nD')
    const { tokens, lore, unknown_macros } = await receipt(body)
    expect(tokens.sections.map(({ section }) => section)).toEqual([
      'system_prompt',
      'lore_before_char',
      'persona',
      'description',
      'greeting',
      'conversation',
    ])
    expect([lore.length, unknown_macros]).toEqual([2, []])
    // The next request has no persona.
    expect((await told({}))[0]).toBe('system: O\n\nTREE\n\nD')
    expect((await told({ persona: ' ' }))[0]).toBe('system: O\n\nTREE\n\nD')
    expect((await told({ persona: null }))[0]).toBe('system: O\n\nTREE\n\nD')
  })

  test('12 {{persona}} is its text, and is reported as unknown without a persona', async () => {
    const { told, receipt } = await stage({ description: 'You know: {{persona}}{{if persona}}!{{else}}?{{/if}}' })
    expect((await told({ persona: 'a gardener' }))[0]).toBe('system: O\n\na gardener\n\nYou know: a gardener!')
    expect((await told({ persona: 'a cook' }))[0]).toBe('system: O\n\na cook\n\nYou know: a cook!')
    expect((await told({}))[0]).toBe('system: O\n\nYou know: ?')
    expect((await receipt({})).unknown_macros).toEqual(['persona'])
    expect((await receipt({ persona: 'x' })).unknown_macros).toEqual([])
  })
})

describe("4.4 an author's note", () => {
  const card = { first_mes: '', extensions: { depth_prompt: { prompt: 'CARD', depth: 1 } } }

  test.each([
    [{ text: 'N of {{char}}' }, ['system: N of Moss', 'user: One', 'assistant: Two', 'system: CARD', 'user: Three']],
    [{ text: 'N', depth: 0 }, ['user: One', 'assistant: Two', 'system: CARD', 'user: Three', 'system: N']],
    [{ text: 'N', depth: 1, role: 'user' }, ['user: One', 'assistant: Two', 'user: N', 'system: CARD', 'user: Three']],
    [
      { text: 'N', depth: 999, role: 'assistant' },
      ['assistant: N', 'user: One', 'assistant: Two', 'system: CARD', 'user: Three'],
    ],
    [
      { text: '{{lastUserMessage}}!', depth: 2 },
      ['user: One', 'system: Three!', 'assistant: Two', 'system: CARD', 'user: Three'],
    ],
    [{ text: ' ' }, ['user: One', 'assistant: Two', 'system: CARD', 'user: Three']],
  ])('4.4 is inserted at its depth, or left out if it is blank: %j', async (author_note, expected) => {
    const { told, receipt } = await stage(card)
    expect((await told({ messages: turns, author_note })).slice(1)).toEqual(expected)
    const { tokens } = await receipt({ messages: turns, author_note })
    expect(tokens.sections.some(({ section }) => section === 'author_note')).toBe(author_note.text !== ' ')
  })

  const above = entry('One', 'ABOVE', { insertion_order: 3, extensions: { position: 2 } })
  const first = entry('One', 'FIRST', { insertion_order: 2, extensions: { position: 2 } })
  const below = entry('One', 'BELOW', { insertion_order: 1, extensions: { position: 3 } })
  const own = entry('One', '@@role user\nOWN', { extensions: { position: 3 } })
  const deep = entry('One', '@@depth 0\nDEEP', { extensions: { position: 2 } })
  const note = { text: 'N', depth: 1, role: 'assistant' }

  test.each([
    ['one message with the note', note, [above, below, first], ['assistant: FIRST\nABOVE\nN\nBELOW']],
    ['one message with the note, without lore below it', note, [above], ['assistant: ABOVE\nN']],
    ['one message without a note, at depth 4', undefined, [above, below], ['system: ABOVE\n\nBELOW']],
    ['a message of its own if the lore asks for a role', note, [below, own], ['user: OWN', 'assistant: N\nBELOW']],
    ['at another depth if the lore asks for it', note, [deep], ['assistant: N', 'system: DEEP']],
  ])('4.4 lore around the note is %s', async (_what, author_note, entries, expected) => {
    const { told } = await stage({ first_mes: '' })
    const lines = await told({ messages: turns, lorebooks: [book(entries)], ...(author_note ? { author_note } : {}) })
    const rest = lines.filter((line) => !turns.some(({ role, content }) => line === `${role}: ${content}`))
    expect(rest.slice(1)).toEqual(expected)
  })
})

describe('6 lorebooks of a request', () => {
  test('6.5 fire after the card’s own lorebook, in every form, and are in the receipt', async () => {
    const { told, receipt } = await stage({ character_book: { entries: [entry('tree', 'OWN')] } })
    const lorebooks = [
      book([entry('tree', 'V3 of {{char}}')], { name: 'Woods' }),
      { entries: [entry('lake', 'BARE')] },
      {
        entries: {
          0: { uid: 0, key: ['lake'], keysecondary: [], content: 'WORLD', order: 0, disable: false, position: 1 },
        },
      },
      book([entry('desert', 'NO'), entry('lake', 'OFF', { enabled: false })]),
    ]
    expect((await told({ lorebooks }))[0]).toBe('system: O\n\nOWN\nV3 of Moss\nBARE\nWORLD')
    const { lore } = await receipt({ lorebooks })
    expect(lore.map(({ book: name, fired }) => [name, fired])).toEqual([
      ['Moss', true],
      ['Woods', true],
      ['lorebooks[1]', true],
      ['lorebooks[2]', true],
    ])
    // The next request has no lorebooks.
    expect((await told({}))[0]).toBe('system: O\n\nOWN')
  })

  test("15 cannot switch off the operator's lore", async () => {
    const { told } = await stage({})
    const lorebooks = [book([entry('tree', '@@disable_ui_prompt system_prompt\nL')])]
    expect((await told({ lorebooks }))[0]).toBe('system: O\n\nL')
  })

  test('15 reveal nothing of a card that the caller may not read', async () => {
    const { service, receipt } = await stage({ description: 'A SECRET {{SECRET word}}' })
    const lorebooks = [
      book([
        entry('secret', 'x', { extensions: { match_character_description: true } }),
        { ...entry('', '{{description}}'), constant: true },
        entry('a secret', 'y'),
      ]),
    ]
    const persona = '{{description}}'
    const hidden = await receipt({ lorebooks, persona }, await service.makeKey('chatter', ['chat']))
    expect(hidden.lore.filter(({ fired }) => fired)).toEqual([])
    expect(hidden.unknown_macros).toEqual(['description'])
    expect(JSON.stringify(hidden)).not.toMatch(/secret/i)
    const shown = await receipt({ lorebooks, persona }, await service.makeKey('operator', ['chat', 'admin']))
    expect(shown.lore.filter(({ fired }) => fired)).toHaveLength(3)
    expect(shown.unknown_macros).toContain('secret')
    expect(shown.messages[0]?.content).toContain('A SECRET {{SECRET word}}\n\nA SECRET')
  })
})

describe('8 texts of a request', () => {
  const all = {
    persona: 'P',
    author_note: { text: 'N', depth: 0 },
    lorebooks: [book([entry('tree', 'L')])],
  }

  test('8 are never sent to an upstream as fields, and never kept for another request', async () => {
    const { told, upstream } = await stage({ description: 'D' })
    expect(await told(all)).toEqual(['system: O\n\nP\n\nD\n\nL', 'user: A tall tree, a lake', 'system: N'])
    expect(Object.keys(upstream.calls.at(-1)?.body ?? {}).sort()).toEqual(['messages', 'model'])
    expect(await told({})).toEqual(['system: O\n\nD', 'user: A tall tree, a lake'])
  })

  test('8 are also sent without a character, and without the operator’s prompt for characters', async () => {
    const { told, receipt } = await stage({})
    const own = [{ role: 'system', content: 'S' }, ...hi]
    expect(await told({ ...all, character: null, messages: own })).toEqual([
      'system: S',
      'system: P\n\nL',
      'user: A tall tree, a lake',
      'system: N',
    ])
    expect((await receipt({ ...all, character: null, greeting: 3 })).character).toBeNull()
  })

  test('8 are also accepted by POST /responses', async () => {
    const { service, upstream } = await stage({ description: 'D' })
    const sent = { model: 'up', character: 'Moss', input: 'A tree', ...all }
    const response = await service.request('/responses', { json: sent })
    expect(response.status).toBe(200)
    await response.text()
    const messages = JSON.stringify(upstream.calls.at(-1)?.body['messages'])
    expect(messages).toContain(JSON.stringify('O\n\nP\n\nD\n\nL'))
    const refused = await service.request('/responses', { json: { ...sent, lorebooks: ['mine'] } })
    expect([refused.status, (await readChatError(refused)).param]).toEqual([400, 'lorebooks[0]'])
  })

  const nested = (levels: number): object => (levels === 0 ? {} : { a: nested(levels - 1) })

  test.each([
    [{ persona: 'x'.repeat(16_385) }, 'persona', 'at most 16384 characters'],
    [{ persona: 5 }, 'persona', 'at most 16384 characters'],
    [{ author_note: 'N' }, 'author_note', 'an object with a text'],
    [{ author_note: {} }, 'author_note.text', ''],
    [{ author_note: { text: 'x'.repeat(16_385) } }, 'author_note.text', 'at most 16384 characters'],
    [{ author_note: { text: 'N', depth: 1000 } }, 'author_note.depth', '0 to 999'],
    [{ author_note: { text: 'N', depth: -1 } }, 'author_note.depth', '0 to 999'],
    [{ author_note: { text: 'N', depth: 0.5 } }, 'author_note.depth', '0 to 999'],
    [{ author_note: { text: 'N', role: 'tool' } }, 'author_note.role', 'system, user, assistant'],
    [{ lorebooks: {} }, 'lorebooks', 'at most 16 lorebook objects'],
    [{ lorebooks: Array.from({ length: 17 }, () => book([])) }, 'lorebooks', 'at most 16 lorebook objects'],
    [{ lorebooks: ['Woods'] }, 'lorebooks[0]', 'a lorebook object'],
    [{ lorebooks: [book([]), { name: 'x' }] }, 'lorebooks[1]', 'it has no entries'],
    [{ lorebooks: [book(Array.from({ length: 20_001 }, () => ({})))] }, 'lorebooks[0]', '20000'],
    [{ lorebooks: [nested(150)] }, null, 'levels'],
  ])('8 with a fault are refused with a sentence, and nothing is sent: row %#', async (body, param, sentence) => {
    const { post, upstream } = await stage({})
    for (const route of ['/chat/completions', '/chat/prompt']) {
      const response = await post(route, body)
      const error = await readChatError(response)
      expect([response.status, error.param]).toEqual([400, param])
      expect(error.message).toContain(sentence)
      expect(error.message.endsWith('.')).toBe(true)
    }
    expect(upstream.calls).toEqual([])
  })

  test('8 of the maximum length are accepted', async () => {
    const { told } = await stage({})
    const longest = '🌿'.repeat(16_384)
    const lorebooks = Array.from({ length: 16 }, (_none, index) => book([entry('tree', `L${index}`)]))
    const lines = await told({ persona: longest, author_note: { text: longest, depth: 999 }, lorebooks })
    expect(lines.join('\n').split(longest)).toHaveLength(3)
    expect(lines[0]).toContain('L15')
  })

  test('15 regular expressions of all books together have the bound of one card', async () => {
    const { told } = await stage({})
    const pattern = (number: number) => entry(`/tr(?:ee|${number})/`, `R${number}.`, { use_regex: true })
    const half = (from: number) => book(Array.from({ length: 300 }, (_none, index) => pattern(from + index)))
    const [lead] = await told({ lorebooks: [half(0), half(300)] })
    expect([lead?.includes('R499.'), lead?.includes('R500.')]).toEqual([true, false])
  })
})

describe('12 a lone surrogate never reaches a model', () => {
  const half = '\ud83c'

  test('12 from any field of a card', async () => {
    const { told } = await stage({
      description: `D${half}`,
      nickname: `M${half}`,
      first_mes: `{{char}}${half}`,
      character_book: { entries: [entry('tree', `L${half}`)] },
    })
    const text = (await told({})).join('\n')
    expect(text.isWellFormed()).toBe(true)
    for (const part of ['D\ufffd', 'L\ufffd', 'assistant: M\ufffd\ufffd']) expect(text).toContain(part)
  })

  test('12 from any field of a request, streamed or not', async () => {
    const { post, upstream, receipt } = await stage({ description: 'D of {{user}}' })
    const body = {
      messages: [{ role: 'user', content: [{ type: 'text', text: `A ${half}` }] }],
      user_name: `Ada${half}`,
      persona: half,
      author_note: { text: half },
      lorebooks: [book([{ ...entry('tree', half), constant: true }])],
      tools: [{ type: 'function', function: { name: 'f', parameters: { [half]: [half, { a: half }] } } }],
      stop: [half],
    }
    for (const padding of ['', 'x'.repeat(20_000)]) {
      await (await post('/chat/completions', { ...body, metadata: { padding } })).text()
      const sent = JSON.stringify(upstream.calls.at(-1)?.body)
      expect(sent).not.toContain('\\ud83c')
      expect(sent).toContain('A \ufffd')
      expect(sent).toContain('"parameters":{"\ufffd":["\ufffd",{"a":"\ufffd"}]}')
    }
    expect(upstream.calls).toHaveLength(2)
    expect(JSON.stringify(await receipt(body))).not.toContain('\\ud83c')
  })
})
