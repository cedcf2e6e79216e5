import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { shownGreetings } from '../../../src/characters/prompt/greetings.ts'
import type { Message } from '../../../src/openai/completion-request.ts'
import {
  assistant,
  cardOf,
  cardWithLore,
  composed,
  firedIn,
  promptLines,
  system,
  user,
} from '../../support/lore-cards.ts'

describe('4.2 {{original}}', () => {
  test.each([
    [
      'the operator text at every occurrence in both fields',
      'A {{original}} {{ORIGINAL}}',
      'system: A O-User O-User',
      'system: A P-Moss P-Moss',
    ],
    ['the operator text itself for a blank text', ' \r\n ', 'system: O-User', 'system: P-Moss'],
  ])('4.2 is %s', (_what, field, main, post) => {
    const card = cardOf({ system_prompt: field, post_history_instructions: field })
    const settings = { systemPrompt: 'O-{{user}}', postHistoryPrompt: 'P-{{char}}' }
    expect(promptLines(composed(card, 'Hi', { settings }))).toEqual([main, 'user: Hi', post])
  })

  test('4.2 is empty without an operator text, and never literal', () => {
    const card = cardOf({ system_prompt: '[{{original}}]', post_history_instructions: '[{{original}}]' })
    expect(promptLines(composed(card, 'Hi', { settings: { systemPrompt: '' } }))).toEqual([
      'system: []',
      'user: Hi',
      'system: []',
    ])
  })
})

describe('4.3 greeting', () => {
  const card = cardOf({ first_mes: 'Hello, {{user}}.', alternate_greetings: ['Second', '', 'Fourth'] })
  const conversation = (said: readonly Message[], more = {}) => promptLines(composed(card, said, more)).slice(1)

  test.each([
    ['stands before a conversation that the user opens', [user('Hi')], {}, ['assistant: Hello, User.', 'user: Hi']],
    [
      'is not repeated when the client shows it',
      [assistant('Hello, User.'), user('Hi')],
      {},
      ['assistant: Hello, User.', 'user: Hi'],
    ],
    [
      'stays on the second turn',
      [user('Hi'), assistant('Oh'), user('So')],
      {},
      ['assistant: Hello, User.', 'user: Hi', 'assistant: Oh', 'user: So'],
    ],
    ['is the one that the request names', [user('Hi')], { greeting: 1 }, ['assistant: Second', 'user: Hi']],
    ['is nothing when it is empty', [user('Hi')], { greeting: 2 }, ['user: Hi']],
    [
      'is never inserted when the operator switches it off',
      [user('Hi')],
      { settings: { systemPrompt: 'MAIN', greeting: 'never' } },
      ['user: Hi'],
    ],
  ] as const)('4.3 %s', (_what, said, more, expected) => {
    expect(conversation(said, more)).toEqual(expected)
  })

  describe('4.3 a greeting', () => {
    const lots = '{{random:a,b,c,d,e,f}}{{roll:1000}}{{pick:x,y,z}}{{description}}'
    const data = {
      description: '{{random:1,2,3,4,5,6}}',
      first_mes: lots,
      alternate_greetings: [lots, `{{user}} ${lots}`],
    }
    /** The greeting that is inserted before the first message of the user. */
    const opening = (more: Parameters<typeof composed>[2] = {}) =>
      String(composed(cardOf(data), 'Hi', more).messages.find(({ role }) => role === 'assistant')?.content)
    const seeds = ['', 'one', 'two', 'three', 'four']

    test('has the same text for a card, an index and a conversation, whatever the user name and other random draws are', () => {
      const texts = [0, 1].flatMap((greeting) => seeds.map((conversationId) => opening({ greeting, conversationId })))
      expect(new Set(texts).size).toBeGreaterThan(8)
      const again = [0, 1].flatMap((greeting) =>
        seeds.map((conversationId) => opening({ greeting, conversationId, userName: 'Ada', random: () => 0.99 })),
      )
      expect(again).toEqual(texts)
    })

    test('has the same text in a prompt and in GET /characters/{name}', () => {
      for (const conversationId of seeds) {
        const shown: string[] = []
        const persona = { name: 'Moss', digest: 'd', userName: 'Ada' }
        const asked = { conversationId, now: new Date() }
        shownGreetings(cardOf(data), persona, asked, (_index, text) => void shown.push(text))
        expect(shown).toEqual([0, 1, 2].map((greeting) => opening({ greeting, conversationId, userName: 'Ada' })))
      }
    })

    const marks = [0, 1, 2, 3].map((index) => ({ constant: true, content: `@@is_greeting ${index}\n${index}` }))
    const marked = cardWithLore(
      marks,
      {},
      { ...data, alternate_greetings: [...data.alternate_greetings, 'At {{time}}, {{user}}.'] },
    )
    const shownTo = (userName: string, conversationId: string, greeting: number, now = new Date(0)) =>
      String(
        composed(marked, 'Hi', { userName, conversationId, greeting, now }).messages.find(
          ({ role }) => role === 'assistant',
        )?.content,
      )
    test.each([
      ['the named user', 'Ada', 'two'],
      ['an unnamed user, without a conversation_id', 'User', ''],
      ['an unnamed user, in this conversation', 'User', 'two'],
    ])(
      'is recognised if a client sends the text that was shown to %s: only its @@is_greeting fires',
      (_what, userName, conversationId) => {
        for (const index of [0, 1, 2, 3]) {
          const echo = shownTo(userName, conversationId, index)
          for (const said of [[assistant(echo)], [user('[Start]'), assistant(` ${echo}\r\n`)]]) {
            const { messages, lore } = composed(marked, [...said, user('Hi')], {
              userName: 'Ada',
              conversationId: 'two',
            })
            expect(lore.map(({ text }) => text)).toEqual([`${index}`])
            expect(messages.filter(({ role }) => role !== 'system')).toEqual([...said, user('Hi')])
          }
        }
      },
    )

    test('is recognised if it contains a long date and is sent at another time', () => {
      const dated = cardWithLore(
        marks,
        {},
        { ...data, first_mes: 'On {{datetimeformat::dddd, MMMM Do YYYY, h:mm:ss a}} in {{date}}.' },
      )
      const said = 'On Wednesday, September 23rd 2026, 12:24:29 pm in September 23, 2026.'
      expect(composed(dated, [assistant(said), user('Hi')]).lore.map(({ text }) => text)).toEqual(['0'])
    })

    test('is recognised if its 200th character is the first half of an emoji', () => {
      const greeting = `${'x'.repeat(199)}🌱 Welcome.`
      const turns = [user('[Start]'), assistant(greeting), user('Hi')]
      const { messages } = composed(cardWithLore([], {}, { first_mes: greeting }), turns)
      expect(messages.filter(({ role }) => role !== 'system')).toEqual(turns)
    })

    test('is not recognised in a text that only resembles it', () => {
      for (const other of [
        'At noon, Ada. And so on, at length, for as long as it takes to be no time',
        'At , Ada.',
        'xyz',
      ]) {
        const { lore } = composed(marked, [assistant(other), user('Hi')], { userName: 'Ada' })
        expect(lore.map(({ text }) => text)).toEqual(['0', '1', '2', '3'])
      }
    })
  })

  test.each([
    ['the request says so with -1', [user('Hi')], { greeting: -1 }],
    ['it begins with the result of a tool', [{ role: 'tool', content: 'R', tool_call_id: 'c' }, user('Hi')], {}],
    ['it begins with a reply', [assistant('Anything'), user('Hi')], {}],
  ] as const)('4.3 no greeting is put before a conversation without its beginning: %s', (_what, said, more) => {
    expect(composed(card, said, more).messages.slice(1)).toEqual(said)
  })

  test('4.3 a greeting that drop-oldest has dropped is not inserted again on the next turn', () => {
    const said = Array.from({ length: 9 }, (_none, index) => (index % 2 ? assistant : user)(`${index} `.repeat(20)))
    const limits = {
      contextWindow: 100,
      overflow: 'drop-oldest',
      count: (text: string) => text.split(' ').length,
    } as const
    for (const length of [7, 9]) {
      const { messages } = composed(card, said.slice(0, length), limits)
      expect(messages.slice(1).every((message) => said.includes(message))).toBe(true)
    }
  })

  test('4.3 an empty first_mes is replaced by the first alternate that is not blank', () => {
    const empty = { first_mes: ' \n', alternate_greetings: ['', 'Second', 'Third'] }
    const entries = [2, 3].map((index) => ({ constant: true, content: `@@is_greeting ${index}\nLORE${index}` }))
    expect(promptLines(composed(cardWithLore(entries, {}, empty), 'Hi'))).toEqual([
      'system: MAIN\n\nLORE2',
      'assistant: Second',
      'user: Hi',
    ])
  })

  test('4.3 an index without a greeting gets a 400 that names the field', () => {
    expect(() => composed(card, 'Hi', { greeting: 4 })).toThrow(
      expect.objectContaining({ status: 400, param: 'greeting' }),
    )
  })

  test('4.3 a greeting is scanned for lore and counts as a message of the character', () => {
    const lore = cardWithLore(
      [{ keys: ['lantern'] }, { constant: true, content: '@@activate_only_after 1\nCOUNTED' }],
      {},
      { first_mes: 'A lantern.' },
    )
    expect(firedIn(composed(lore, 'Hi'))).toEqual(['LORE0', 'COUNTED'])
  })
})

describe('4.4 depth', () => {
  const said = ['1', '2', '3', '4'].map((text, index) => (index % 2 ? assistant(text) : user(text)))
  const at = (depths: readonly (number | string)[], more = {}) =>
    promptLines(
      composed(
        cardWithLore(
          depths.map((depth, order) => ({
            constant: true,
            content: `@@depth ${depth}\nD${depth}`,
            insertion_order: order,
          })),
          {},
          more,
        ),
        said,
        { settings: { systemPrompt: '', greeting: 'never' } },
      ),
    ).map((line) => line.replace(/^\w+: /, ''))

  test('4.4 exactly N conversation messages come after an injection; with fewer messages it comes before the oldest', () => {
    expect(at([2])).toEqual(['1', '2', 'D2', '3', '4'])
    expect(at([0, -3])).toEqual(['1', '2', '3', 'D0', 'D-3', '4'])
    expect(at([99])).toEqual(['D99', '1', '2', '3', '4'])
  })

  test('4.4 lore with the highest insertion order is nearest to the end, and the note comes after lore', () => {
    const note = { extensions: { depth_prompt: { prompt: 'NOTE {{char}}', depth: '1', role: 'user' } } }
    expect(at([1, 1.5], note)).toEqual(['1', '2', '3', 'D1', 'D1.5', 'NOTE Moss', '4'])
  })

  test('4.4 a system message of the request stays in its place, and depth counts neither it nor examples nor post-history', () => {
    const card = cardWithLore(
      [{ constant: true, content: '@@depth 1\nD' }],
      {},
      { mes_example: 'Moss: E', post_history_instructions: 'P' },
    )
    expect(promptLines(composed(card, [...said, system('S')])).slice(-4)).toEqual([
      'system: D',
      'assistant: 4',
      'system: S',
      'system: P',
    ])
  })

  test('4.4 a reply that the request has begun stays last, after injections and post-history', () => {
    const entries = [0, 1, 99].map((depth) => ({ constant: true, content: `@@depth ${depth}\nD${depth}` }))
    const prefill = { constant: true, content: '@@depth 0\n@@role assistant\nPREFILL' }
    const card = cardWithLore([...entries, prefill], {}, { first_mes: 'G', post_history_instructions: 'P' })
    expect(promptLines(composed(card, [user('1'), assistant('2'), user('3'), assistant('And so')]))).toEqual([
      'system: MAIN',
      'system: D99',
      'assistant: G',
      'user: 1',
      'assistant: 2',
      'user: 3',
      'system: D1',
      'system: D0',
      'assistant: PREFILL',
      'system: P',
      'assistant: And so',
    ])
  })

  test('4.4 with any injections, a begun reply is in the prompt once, unchanged, as the last message', () => {
    const turn = fc.tuple(fc.constantFrom(user, assistant, system), fc.string({ minLength: 1 }))
    const place = fc.tuple(fc.integer({ min: -2, max: 9 }), fc.constantFrom('system', 'user', 'assistant'))
    fc.assert(
      fc.property(fc.array(turn, { maxLength: 6 }), fc.array(place), (turns, places) => {
        const entries = places.map(([depth, role]) => ({
          constant: true,
          content: `@@depth ${depth}\n@@role ${role}\nSome words of lore`,
        }))
        const card = cardWithLore(entries, {}, { post_history_instructions: 'P' })
        const said = turns.map(([by, text]) => by(text))
        const begun = assistant('BEGUN')
        const { messages } = composed(card, [...said, begun])
        expect(messages.indexOf(begun)).toBe(messages.length - 1)
        expect(messages.filter((message) => said.includes(message))).toEqual(said)
        expect(messages.filter(({ content }) => content === 'Some words of lore')).toHaveLength(places.length)
      }),
      { numRuns: 60 },
    )
  })

  test('4.4 nothing comes between a tool call and its result', () => {
    const call = { id: 'c', type: 'function' as const, function: { name: 'f', arguments: '{}' } }
    const tools: readonly Message[] = [
      user('1'),
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', content: 'R', tool_call_id: 'c' },
    ]
    const card = cardWithLore([{ constant: true, content: '@@depth 1\nD' }])
    expect(composed(card, tools).messages.map(({ role }) => role)).toEqual([
      'system',
      'user',
      'system',
      'assistant',
      'tool',
    ])
  })

  test('2.4 the character note has depth 4 and the role system by default; an empty note is left out', () => {
    const card = cardOf({ extensions: { depth_prompt: { prompt: 'NOTE' } } })
    expect(promptLines(composed(card, [user('0'), ...said])).slice(1, 3)).toEqual(['user: 0', 'system: NOTE'])
    expect(promptLines(composed(cardOf({ extensions: { depth_prompt: { prompt: '  ' } } }), 'Hi'))).toEqual([
      'system: MAIN',
      'user: Hi',
    ])
  })
})

describe('4.5 context limit', () => {
  const words = (count: number, word = 'w') => Array.from({ length: count }, () => word).join(' ')
  const count = (text: string) => text.split(/\s+/).filter((word) => word !== '').length
  const card = cardWithLore(
    [
      { constant: true, content: `@@ignore_on_max_context\n${words(20, 'ignorable')}`, priority: 99 },
      { constant: true, content: words(20, 'constant'), priority: 1 },
      { keys: ['tea'], content: words(20, 'high'), priority: 50 },
      { keys: ['tea'], content: words(20, 'low'), priority: 5 },
    ],
    { token_budget: 1_000_000 },
    { description: 'DESCRIPTION', mes_example: `Moss: ${words(20, 'first')}<START>Moss: ${words(20, 'second')}` },
  )
  const said = [user(words(20, 'oldest')), assistant(words(20, 'older')), user('tea')]
  const kept = (contextWindow: number, more = {}) => {
    const { messages, dropped } = composed(card, said, { contextWindow, count, ...more })
    const text = JSON.stringify(messages)
    const parts = ['ignorable', 'first', 'second', 'low', 'high', 'constant', 'oldest', 'older']
    return [
      parts.filter((part) => text.includes(part)).join(' '),
      `${dropped.lore} ${dropped.examples} ${dropped.messages}`,
    ]
  }
  const all = 'ignorable first second low high constant oldest older'

  test('4.5 drops in order: ignorable lore, examples from the last, lore by priority, constant lore, oldest messages', () => {
    expect(kept(10_000)).toEqual([all, '0 0 0'])
    const seen = new Set<string>()
    for (let window = 400; window > 40; window -= 4) {
      try {
        seen.add(kept(window, { overflow: 'drop-oldest' }).join(': '))
      } catch {
        break
      }
    }
    expect([...seen]).toEqual(
      [
        `${all}: 0 0 0`,
        'first second low high constant oldest older: 1 0 0',
        'first low high constant oldest older: 1 1 0',
        'low high constant oldest older: 1 2 0',
        'high constant oldest older: 2 2 0',
        'constant oldest older: 3 2 0',
        'oldest older: 4 2 0',
        'older: 4 2 1',
      ].slice(0, seen.size),
    )
    expect(seen.size).toBeGreaterThanOrEqual(7)
  })

  test('4.5 a prompt that is too long gets a 400 with the counts; drop-oldest drops messages, but never the persona', () => {
    expect(() => kept(60)).toThrow(
      expect.objectContaining({
        status: 400,
        code: 'context_length_exceeded',
        message: expect.stringMatching(/\d+ tokens.*60/),
      }),
    )
    const texts = { persona: words(100), seesCard: true }
    expect(() => composed(card, said, { contextWindow: 90, count, overflow: 'drop-oldest', texts })).toThrow(
      /in all\. Send fewer or shorter messages, or a shorter persona or author's note\.$/,
    )
    const { messages } = composed(card, said, { contextWindow: 40, count, overflow: 'drop-oldest' })
    expect(JSON.stringify(messages)).toContain('DESCRIPTION')
    expect(messages.at(-1)).toEqual(user('tea'))
  })

  test('4.5 leading system messages are never dropped, even without a character', () => {
    const turns = [{ role: 'system' as const, content: 'RULES' }, user(words(30)), assistant(words(30)), user('tea')]
    const more = { name: null, contextWindow: 30, count, overflow: 'drop-oldest' as const }
    expect(composed(null, turns, more).messages).toEqual([turns[0], turns[3]])
    expect(() => composed(null, turns.slice(0, 1), { ...more, contextWindow: 3 })).toThrow(/tokens/)
  })

  test("4.5 the reply's tokens are reserved", () => {
    const fits = Array.from({ length: 400 }, (_none, index) => 100 + index).find((window) => {
      return kept(window, { overflow: 'drop-oldest' })[1] === '0 0 0'
    })
    expect(kept(fits ?? 0, { replyTokens: 1 })[1]).toBe('1 0 0')
  })

  test('4.5 the token count of a huge conversation that cannot fit stops early', () => {
    let counted = 0
    const counting = (text: string) => {
      counted += text.length
      return count(text)
    }
    expect(() =>
      composed(null, [user('word '.repeat(1_000_000))], { name: null, contextWindow: 1000, count: counting }),
    ).toThrow(
      expect.objectContaining({
        code: 'context_length_exceeded',
        message: expect.stringContaining('more than 1000 tokens'),
      }),
    )
    expect(counted).toBeLessThan(200_000)
  })

  test('4.5 a tool call is dropped with its results, and the newest turn stays', () => {
    const call = { id: 'c', type: 'function' as const, function: { name: 'f', arguments: words(30) } }
    const tools: readonly Message[] = [
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', content: words(30), tool_call_id: 'c' },
      user('Hi'),
    ]
    const { messages, dropped } = composed(cardOf({}), tools, { contextWindow: 30, count, overflow: 'drop-oldest' })
    expect(messages.map(({ role }) => role)).toEqual(['system', 'user'])
    expect(dropped).toEqual({ lore: 0, examples: 0, messages: 2 })
  })

  test('4.5 no tokens are counted if the bytes show that everything fits', () => {
    const never = () => {
      throw new Error('counted')
    }
    expect(composed(card, said, { contextWindow: 100_000, count: never }).dropped).toEqual({
      lore: 0,
      examples: 0,
      messages: 0,
    })
  })
})

describe('5 example dialogue', () => {
  test('5 a comment may span lines, blocks are separated, and <START> elsewhere is plain text', () => {
    const card = cardOf({
      description: 'Say <START>\nMoss: hi',
      mes_example: 'User: A{{// x\nMoss: no\n}}b\n<start>{{char}}: C: D',
    })
    expect(promptLines(composed(card, 'Hi'))).toEqual([
      'system: MAIN\n\nSay <START>\nMoss: hi',
      'system: [Example Chat]',
      'example_user: Ab',
      'system: [Example Chat]',
      'example_assistant: C: D',
      'user: Hi',
    ])
  })
})
