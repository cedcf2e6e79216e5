import { execFile } from 'node:child_process'
import { completion } from '../upstream.ts'
import type { Attacker } from './attacker.ts'
import { hi, json, type Row, randomLetters, times } from './row.ts'

/* Cards as JSON: the cost of an upload, and of prompts and chats with the card. */

export const card = (fields: object) => ({
  spec: 'chara_card_v3',
  spec_version: '3.0',
  data: { name: 'Moss', description: 'A plant.', first_mes: 'Hello.', ...fields },
})
export const play = (character: string, messages: readonly object[] = hi) => ({
  model: 'understudy',
  character,
  messages,
})

interface CardRow {
  readonly name: string
  readonly fields: () => object
  /** The messages of the chat; by default a short line. */
  readonly messages?: () => readonly object[]
  /** Whether only `/chat/prompt` is called. */
  readonly isPromptOnly?: boolean
}

async function warm(attacker: Attacker): Promise<void> {
  const book = { entries: [{ keys: ['{{char}}', 'hi'], content: 'Lore.', enabled: true, insertion_order: 1 }] }
  const fern = card({ name: 'Warm', description: '{{time}} {{pick:a,b}}', character_book: book })
  await attacker.post('/characters', json(fern))
  await attacker.post('/chat/prompt', json(play('Warm')))
  await attacker.post('/chat/completions', json(play('Warm')))
}

function cardRow({ name, fields, messages, isPromptOnly }: CardRow, more: Partial<Row> = {}): Row {
  return {
    name,
    warm,
    prepare: () => {
      const bytes = json(card(fields()))
      const request = json(play('Moss', messages?.() ?? hi))
      return async (attacker) => {
        await attacker.put('/characters/Moss', bytes)
        await attacker.post('/chat/prompt', request)
        if (!isPromptOnly) await attacker.post('/chat/completions', request)
      }
    },
    ...more,
  }
}

export const entry = (fields: object) => ({ content: 'Lore.', enabled: true, insertion_order: 1, ...fields })
export const bookOf = (entries: readonly object[], more: object = {}) => ({ character_book: { entries, ...more } })
const long = (count: number, length: number) => () =>
  times(count, (index) => ({
    role: index % 2 === 0 ? 'user' : 'assistant',
    content: 'moss and fern '.repeat(length / 14),
  }))

/** A card with a test whose pattern takes exponential time in a backtracking engine. A command runs the test. */
const testOfCard: Row = {
  name: 'a card test with "matches": ["^(a+)+$"], by the command',
  maxAttackers: 1,
  warm,
  upstream: (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(completion(`${'a'.repeat(60)}!`)))
  },
  prepare: () => async (attacker) => {
    const { dataDirectory, folder } = attacker
    const tests = [{ messages: hi, expect: { matches: ['^(a+)+$'] } }]
    await attacker.post('/characters', json(card({ name: 'Tested', extensions: { conservatory: { tests } } })))
    const start = performance.now()
    const args = ['src/main.ts', 'characters', 'test', 'Tested', '--account', 'account-2', '--model', 'relay']
    const code = await new Promise<number | null>((resolve) => {
      execFile(
        process.execPath,
        args,
        { cwd: folder, timeout: 40_000, killSignal: 'SIGKILL', env: { DATA_DIR: dataDirectory } },
        (error) => resolve(error === null ? 0 : typeof error.code === 'number' ? error.code : null),
      )
    })
    const seconds = (performance.now() - start) / 1000
    attacker.tell(
      code === null ? 'the command had no end' : `the command ended with ${code}`,
      code === null ? null : 200,
      seconds,
    )
  },
}

const texts: readonly Row[] = [
  cardRow({ name: '60,000 {{roll:1000d1}}', fields: () => ({ description: '{{roll:1000d1}} '.repeat(60_000) }) }),
  cardRow({
    name: '2,900 {{roll:1000d1}}, about the most there may be',
    fields: () => ({ description: '{{roll:1000d1}} '.repeat(2900) }),
  }),
  cardRow({ name: '100,000 unclosed {{', fields: () => ({ description: '{{'.repeat(100_000) }) }),
  cardRow(
    { name: '3,000,000 unclosed {{', fields: () => ({ description: '{{ '.repeat(3_000_000) }) },
    { isLargest: true },
  ),
  cardRow({
    name: '50,000 example blocks',
    fields: () => ({ mes_example: '<START>\n{{user}}: Hi\n{{char}}: Ho\n'.repeat(50_000) }),
  }),
  cardRow(
    {
      name: '4,000,000 lines of example dialogue without a speaker',
      fields: () => ({ mes_example: 'a\n'.repeat(4_000_000) }),
    },
    { isLargest: true },
  ),
  cardRow(
    {
      name: '5,000,000 carriage returns in example dialogue, a nickname and a lore entry',
      fields: () => ({
        mes_example: 'a\r'.repeat(1_700_000),
        nickname: 'a\x7f'.repeat(500_000),
        ...bookOf([entry({ keys: ['moss'], content: 'a\r'.repeat(1_700_000) })]),
      }),
    },
    { isLargest: true },
  ),
  cardRow(
    {
      name: 'a lore key of 3,000,000 control characters, and one of letters between slashes',
      fields: () => bookOf([entry({ keys: ['\x7fa'.repeat(3_000_000), `/${'a'.repeat(4_000_000)}/`, 'moss'] })]),
    },
    { isLargest: true },
  ),
  cardRow(
    {
      name: '4,000,000 lines with decorators in a lore entry',
      fields: () => bookOf([entry({ keys: ['moss'], content: '@@\n'.repeat(4_000_000) })]),
    },
    { isLargest: true },
  ),
  cardRow(
    { name: 'a macro whose name has 14,000,000 letters', fields: () => ({ description: `{{${'a'.repeat(14e6)}!}}` }) },
    { isLargest: true },
  ),
  cardRow(
    {
      name: '9,000 lines of example dialogue of 1.6 kB',
      fields: () => ({ mes_example: `Moss: ${'moss and fern '.repeat(115)}\n`.repeat(9000) }),
    },
    { isLargest: true },
  ),
  cardRow({ name: '20,000 {{pick}} in a card', fields: () => ({ description: '{{pick:a,b}} '.repeat(20_000) }) }),
  cardRow({
    name: '2,900 {{pick}}, about the most there may be',
    fields: () => ({ description: '{{pick:a,b}} '.repeat(2900) }),
  }),
  cardRow({ name: '60,000 {{time}} in a card', fields: () => ({ description: '{{time}} '.repeat(60_000) }) }),
  cardRow({
    name: '20,000 {{description}} of a description that is a comment',
    fields: () => ({ description: `{{// ${'x'.repeat(100_000)}}}`, personality: '{{description}}'.repeat(20_000) }),
  }),
  cardRow(
    { name: 'a description of 15 MB of words', fields: () => ({ description: 'moss and fern '.repeat(1_100_000) }) },
    { isLargest: true },
  ),
  cardRow(
    {
      name: '500,000 alternate greetings and 500,000 tags',
      fields: () => ({ alternate_greetings: times(500_000, () => 'Hi'), tags: times(500_000, (index) => `t${index}`) }),
    },
    { isLargest: true },
  ),
]

/** Prompts of one card for many users. The service caches the card's texts for each user. */
const manyUsers: Row = {
  name: '9,900 lines of example dialogue, for 20 names of users',
  warm,
  prepare: () => {
    const body = json(card({ mes_example: 'Moss:x\n'.repeat(9_900) }))
    return async (attacker) => {
      await attacker.put('/characters/Moss', body)
      for (let user = 0; user < 20; user++) {
        await attacker.post('/chat/prompt', json({ ...play('Moss'), user_name: `User ${user}` }))
      }
    }
  },
}

/** Lists of cards with long creators and tags, which the lists show. */
const longCreators: Row = {
  name: 'lists of 10 cards whose creators have 10 MB of letters, and whose tags are commas',
  isLargest: true,
  warm,
  prepare: () => {
    const body = json(card({ creator: 'é'.repeat(5_000_000), tags: 'a,'.repeat(1_000_000) }))
    return async (attacker) => {
      for (let index = 0; index < 10; index++) await attacker.put(`/characters/Moss${index}`, body)
      await attacker.send('/characters')
      await attacker.send('/characters?tag=b')
    }
  },
}

/** The longest list of characters. */
const longList: Row = {
  name: 'lists of 1,000 cards with 100 tags of 200 letters',
  isLargest: true,
  maxAttackers: 4,
  warm,
  prepare: () => {
    const body = json(card({ tags: times(100, (index) => String(index).padEnd(200, 'é')) }))
    return async (attacker) => {
      const names = times(1000, (index) => `Moss${index}`)
      for (const name of names) await attacker.put(`/characters/${name}`, body)
      for (let round = 0; round < 3; round++) await attacker.send('/characters?limit=1000')
      await attacker.send('/characters?tag=b')
    }
  },
}

/** Replies that show one card. */
const shown: Row = {
  name: 'a card of 14 MB of notes and greetings that is shown',
  isLargest: true,
  warm,
  prepare: () => {
    const greetings = times(80_000, () => 'Hi {{user}}')
    const body = json(card({ alternate_greetings: greetings, creator_notes: 'moss and fern '.repeat(900_000) }))
    return async (attacker) => {
      await attacker.put('/characters/Moss', body)
      await attacker.send('/characters/Moss')
      await attacker.send('/characters/Moss')
    }
  },
}

const lore: readonly Row[] = [
  cardRow(
    {
      name: '6,000 lore entries with 64 keys of {{char}}i.j',
      fields: () => bookOf(times(6000, (i) => entry({ keys: times(64, (j) => `{{char}}${i}.${j}`) }))),
    },
    { isLargest: true },
  ),
  cardRow(
    {
      name: '3,000 lore entries that look back, 400 messages of 18 kB',
      fields: () =>
        bookOf(
          times(3000, (i) =>
            entry({ keys: [`zzz${i}`], content: '@@dont_activate_after_match\n@@scan_depth 400\nLore.' }),
          ),
        ),
      messages: long(400, 18_000),
      isPromptOnly: true,
    },
    { isLargest: true },
  ),
  cardRow({
    name: '20,000 constant lore entries',
    fields: () => bookOf(times(20_000, (i) => entry({ keys: [], constant: true, content: `Lore ${i}.` }))),
  }),
  cardRow({
    name: '1,000 lore entries whose key may expand to nothing',
    fields: () =>
      bookOf(
        [entry({ keys: [], constant: true, content: 'moss and fern '.repeat(500) })].concat(
          times(1000, () => entry({ keys: ['{{random::zzz::}}'], extensions: { match_whole_words: true } })),
        ),
      ),
  }),
  cardRow({
    name: '50 lore entries beside the examples with 9,900 utterances each',
    fields: () =>
      bookOf(
        times(50, () =>
          entry({ keys: [], constant: true, content: 'Moss:x\n'.repeat(9_900), extensions: { position: 5 } }),
        ),
      ),
  }),
  cardRow(
    {
      name: '4,000 lore entries of 3.5 kB among the messages',
      fields: () =>
        bookOf(
          times(4000, () =>
            entry({
              keys: [],
              constant: true,
              content: 'moss and fern '.repeat(250),
              extensions: { position: 4, depth: 1 },
            }),
          ),
        ),
    },
    { isLargest: true },
  ),
  cardRow({
    name: '20,000 lore entries that find one another',
    fields: () =>
      bookOf(
        times(20_000, (i) => entry({ keys: [i === 0 ? 'Hi' : `k${i}.`], content: `Now k${i + 1}.` })),
        { recursive_scanning: true },
      ),
  }),
  cardRow(
    {
      name: '500 patterns as keys, 400 messages of 18 kB',
      fields: () =>
        bookOf(
          times(500, (i) => entry({ use_regex: true, keys: [`/(a+)+(b|c${i})*[a-z ]{1,30}(x|y)*$/i`] })),
          { scan_depth: 400 },
        ),
      messages: long(400, 18_000),
      isPromptOnly: true,
    },
    { isLargest: true },
  ),
  cardRow({
    name: '20 patterns that make a state of each letter',
    fields: () => bookOf(times(20, (i) => entry({ use_regex: true, keys: [`/(a|b)*a(a|b){100}[^a-c]{${i + 1}}/`] }))),
    messages: () => [
      { role: 'user', content: randomLetters(60_000).replace(/./g, (letter) => (letter < 'n' ? 'a' : 'b')) },
    ],
    isPromptOnly: true,
  }),
  cardRow({
    name: '384 patterns with large classes of letters, 64 to an entry',
    fields: () =>
      bookOf(times(6, (i) => entry({ use_regex: true, keys: times(64, (j) => `/${'[k-豈]'.repeat(9)}${i}.${j}/i`) }))),
  }),
  cardRow(
    {
      name: '640 patterns that are refused, and 15,360 with a class without an end',
      fields: () => {
        const broken = `${'/'}${'['.repeat(990)}/`
        const keys = (i: number) => times(64, (j) => (i < 10 ? `/(${j}/` : broken))
        return bookOf(times(250, (i) => entry({ use_regex: true, keys: keys(i) })))
      },
    },
    { isLargest: true },
  ),
  cardRow({
    name: '11,000 lore entries in 20 groups each, all different, with sticky',
    fields: () =>
      bookOf(
        times(11_000, (i) =>
          entry({
            keys: [],
            constant: true,
            content: `L${i}`,
            extensions: { group: times(20, (j) => `g${i}.${j}`).join(','), sticky: 1 },
          }),
        ),
      ),
  }),
  cardRow(
    {
      name: '900 lore entries with groups of 16,400 letters that differ in the last one',
      fields: () =>
        bookOf(times(900, (i) => entry({ keys: ['Hi'], extensions: { group: `${'g'.repeat(16_400)}${i}` } }))),
    },
    { isLargest: true },
  ),
  cardRow({
    name: '49 lists of 64 keys in decorators of each lore entry, which depend on the greeting',
    fields: () => {
      const keys = `@@additional_keys ${times(64, (i) => i).join()}\n`
      return bookOf(times(50, () => entry({ keys: ['Hi'], content: `@@is_greeting 1\n${keys.repeat(49)}x` })))
    },
  }),
  cardRow(
    {
      name: '7,000,000 Cyrillic letters as a position, a role and a name of decorators',
      fields: () => {
        const letters = 'Ж'.repeat(2_300_000)
        const content = `@@position ${letters}\n@@role ${letters}\n@@${letters}\nx`
        return bookOf([entry({ keys: ['Hi'], content })])
      },
    },
    { isLargest: true },
  ),
  cardRow(
    {
      name: 'a tag of 15,000,000 digits in a character filter',
      fields: () => bookOf([entry({ keys: ['Hi'], character_filter: { tags: ['1'.repeat(15_000_000)] } })]),
    },
    { isLargest: true },
  ),
  cardRow(
    { name: 'a nickname of 7,000,000 Cyrillic letters', fields: () => ({ nickname: 'Ж'.repeat(7_000_000) }) },
    { isLargest: true },
  ),
  cardRow(
    {
      name: '3,800 constant lore entries of 4 kB, which the recursion searches',
      fields: () => {
        const constants = times(3800, (i) => entry({ keys: [], constant: true, content: `${i}${'x'.repeat(4090)}` }))
        return bookOf([...constants, entry({ keys: ['orchid'] })])
      },
    },
    { isLargest: true },
  ),
  cardRow({
    name: '10,000 sticky lore entries with a probability, 400 messages of 500 characters',
    fields: () =>
      bookOf(
        times(10_000, (i) =>
          entry({ keys: [], constant: true, content: `L${i}`, extensions: { sticky: 1, probability: 50 } }),
        ),
        { scan_depth: 1 },
      ),
    messages: long(400, 500),
    isPromptOnly: true,
  }),
  cardRow({
    name: '99,998 line separators of Unicode in example dialogue, and 16,000 in each of 30 lore entries',
    fields: () => ({
      mes_example: `a${'\u2028'.repeat(99_998)}b`,
      ...bookOf(times(30, (i) => entry({ keys: ['Hi'], content: `${i}${'\u2028'.repeat(16_000)}b` }))),
    }),
  }),
  cardRow({
    name: '19 lists of traits with a thousand blanks after a parenthesis, and 80 greetings of actions',
    fields: () => ({
      description: `Personality: x (${' '.repeat(970)}x\n`.repeat(19),
      alternate_greetings: times(80, (i) => `${i} ${'*abcd* '.repeat(14_000)}`),
    }),
  }),
  cardRow({
    name: '20,000 lore entries, all in the same 20 groups',
    fields: () =>
      bookOf(
        times(20_000, (i) =>
          entry({ keys: ['Hi'], content: `L${i}`, extensions: { group: times(20, (j) => `g${j}`).join(',') } }),
        ),
      ),
  }),
]

const unknown: readonly Row[] = [
  cardRow(
    {
      name: 'a card of 11 MB with 900,000 unknown fields',
      fields: () => Object.fromEntries(times(900_000, (index) => [`f${index}`, 1])),
    },
    { isLargest: true },
  ),
  cardRow(
    {
      name: '100,000 lore entries with unknown fields',
      fields: () => bookOf(times(100_000, (i) => entry({ keys: ['a'], [`u${i}`]: 1 }))),
    },
    { isLargest: true },
  ),
  cardRow(
    { name: 'extensions that nest 3,000,000 deep', fields: () => ({ extensions: { a: 'deep' } }) },
    {
      isLargest: true,
      prepare: () => {
        const bytes = Buffer.from(
          JSON.stringify(card({ extensions: { a: 'deep' } })).replace(
            '"deep"',
            `${'['.repeat(3_000_000)}${']'.repeat(3_000_000)}`,
          ),
        )
        return (attacker) => attacker.put('/characters/Moss', bytes)
      },
    },
  ),
]

export const cards: readonly Row[] = [
  ...texts,
  ...lore,
  ...unknown,
  manyUsers,
  longCreators,
  longList,
  shown,
  testOfCard,
]
