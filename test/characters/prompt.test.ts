import { createHash } from 'node:crypto'
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type Card, CardError, readCard } from '../../src/characters/card.ts'
import { readExamples, type Utterance } from '../../src/characters/examples.ts'
import { CharacterLibrary } from '../../src/characters/library.ts'
import { builtInSystemPrompt, composePrompt } from '../../src/characters/prompt.ts'
import type { Message } from '../../src/chat/completion.ts'
import { serviceForThisTest, temporaryFolder } from '../support/service.ts'

const question: readonly Message[] = [{ role: 'user', content: 'Are you {{char}}, <BOT>, or {{original}}?' }]

function card(fields: Partial<Card>): Card {
  const empty = { nickname: '', description: '', personality: '', scenario: '', systemPrompt: '', examples: '' }
  return { name: 'Moss', ...empty, greetings: ['GREETING'], lorebook: [], ...fields }
}

function system(content: string, name?: string): Message {
  return name === undefined ? { role: 'system', content } : { role: 'system', name, content }
}

describe('composePrompt', () => {
  interface Scenario {
    readonly what: string
    readonly card?: Card | null
    readonly name?: string | null
    readonly userName?: string
    readonly systemPrompt?: string
    readonly messages?: readonly Message[]
    /** What stands before the request's own messages. */
    readonly before: readonly Message[]
  }
  const scenarios: readonly Scenario[] = [
    {
      what: 'puts system prompt, description, personality, scenario and examples in this order',
      card: card({
        scenario: 'SCENARIO',
        personality: 'PERSONALITY',
        description: 'DESCRIPTION',
        systemPrompt: 'SYSTEM',
        examples: '<START>\n{{user}}: Hi.\n{{char}}: Hello.',
      }),
      before: [
        system('SYSTEM\n\nDESCRIPTION\n\nPERSONALITY\n\nSCENARIO'),
        system('[Example Chat]'),
        system('Hi.', 'example_user'),
        system('Hello.', 'example_assistant'),
      ],
    },
    {
      what: 'makes nothing of empty and blank fields',
      card: card({ description: ' \n ', personality: '', scenario: 'SCENARIO', examples: '<START>\n \n<start>' }),
      systemPrompt: 'OPERATOR',
      before: [system('OPERATOR\n\nSCENARIO')],
    },
    {
      what: 'takes the built-in prompt when neither the card nor the operator has one',
      card: card({ systemPrompt: '  ' }),
      systemPrompt: builtInSystemPrompt,
      before: [system("Write Moss's next reply in a conversation between Moss and User. Stay in character.")],
    },
    {
      what: "prefers the card's prompt to the operator's",
      card: card({ systemPrompt: 'CARD' }),
      systemPrompt: 'OPERATOR',
      before: [system('CARD')],
    },
    {
      what: "puts the operator's prompt in the place of every {{original}}",
      card: card({ systemPrompt: '({{original}}) CARD ({{ORIGINAL}})' }),
      systemPrompt: 'Be {{char}}',
      before: [system('(Be Moss) CARD (Be Moss)')],
    },
    {
      what: 'leaves {{original}} in other fields and unknown macros as they are',
      card: card({ systemPrompt: 'S', description: '{{original}} {{weather}} {{char' }),
      systemPrompt: 'OPERATOR',
      before: [system('S\n\n{{original}} {{weather}} {{char')],
    },
    {
      what: 'expands all names, in any letter case, and in every field',
      card: card({
        systemPrompt: '{{CHAR}} <bot>',
        description: '<CHAR> {{User}}',
        personality: '<user>',
        scenario: '{{{char}}}',
        examples: '{{user}}: {{char}}?\n<BOT>: <User>!',
      }),
      userName: 'Ada',
      before: [
        system('Moss Moss\n\nMoss Ada\n\nAda\n\n{Moss}'),
        system('[Example Chat]'),
        system('Moss?', 'example_user'),
        system('Ada!', 'example_assistant'),
      ],
    },
    {
      what: 'calls the character by its nickname, and reads examples that use either name',
      card: card({ nickname: 'Mo', description: '{{char}}', systemPrompt: 'S', examples: 'Moss: One.\nMo: Two.' }),
      before: [
        system('S\n\nMo'),
        system('[Example Chat]'),
        system('One.', 'example_assistant'),
        system('Two.', 'example_assistant'),
      ],
    },
    {
      what: 'never reads a user name again: macros in it stay literal',
      card: card({ systemPrompt: '{{user}}', description: 'To {{user}}.', examples: '{{user}}: I am {{user}}.' }),
      userName: '{{char}}{{user}}<BOT>{{original}}',
      systemPrompt: 'OPERATOR',
      before: [
        system('{{char}}{{user}}<BOT>{{original}}\n\nTo {{char}}{{user}}<BOT>{{original}}.'),
        system('[Example Chat]'),
        system('I am {{char}}{{user}}<BOT>{{original}}.', 'example_user'),
      ],
    },
    {
      what: "never reads a user name again: String.replace's patterns in it stay literal",
      card: card({ systemPrompt: '{{user}} ({{original}})', description: '{{user}}' }),
      systemPrompt: '{{user}}!',
      userName: "$& $1 $$ $` $'",
      before: [system("$& $1 $$ $` $' ($& $1 $$ $` $'!)\n\n$& $1 $$ $` $'")],
    },
    {
      what: "never reads a user name again: it ends no example and takes nobody's turn",
      card: card({ systemPrompt: 'S', examples: '{{user}}: I am {{user}}.\n{{char}}: So you are.' }),
      userName: 'A<START>\nMoss: No, I',
      before: [
        system('S'),
        system('[Example Chat]'),
        system('I am A<START>\nMoss: No, I.', 'example_user'),
        system('So you are.', 'example_assistant'),
      ],
    },
    {
      what: "never reads a character's name again",
      card: card({ name: '{{user}}$&', systemPrompt: '{{char}}', description: '<BOT>' }),
      userName: 'Ada',
      before: [system('{{user}}$&\n\n{{user}}$&')],
    },
    {
      what: 'drops carriage returns',
      card: card({
        systemPrompt: 'A\r\nB',
        description: 'C\r\n',
        examples: '<START>\r\nUser: Hi\r\nthere\r\nMoss: Oh\r\n',
      }),
      before: [
        system('A\nB\n\nC'),
        system('[Example Chat]'),
        system('Hi\nthere', 'example_user'),
        system('Oh', 'example_assistant'),
      ],
    },
    {
      what: 'separates blocks of examples, and keeps lines that nobody is named for',
      card: card({ systemPrompt: 'S', examples: '*Rain.*\nUser: One\n<START>\nMoss: Two\n<start>Three' }),
      before: [
        system('S'),
        system('[Example Chat]'),
        system('*Rain.*'),
        system('One', 'example_user'),
        system('[Example Chat]'),
        system('Two', 'example_assistant'),
        system('[Example Chat]'),
        system('Three'),
      ],
    },
    {
      what: 'makes no message of an utterance without words',
      card: card({ systemPrompt: 'S', examples: 'User:\nMoss: Oh\n<START>\nUser: \n<START>\nMoss:' }),
      before: [system('S'), system('[Example Chat]'), system('Oh', 'example_assistant')],
    },
    {
      what: 'plays a name without a card by the name alone, as it was asked for',
      card: null,
      name: 'The {{user}} of $&',
      userName: 'Ada',
      systemPrompt: 'Be {{char}} to {{user}}.',
      before: [system('Be The {{user}} of $& to Ada.')],
    },
    { what: 'adds nothing without a character', card: null, name: null, systemPrompt: 'OPERATOR', before: [] },
    {
      what: "passes the request's messages on unchanged, system messages and content parts too",
      card: card({ systemPrompt: 'S' }),
      messages: [
        system('CALLER {{char}}\r\n'),
        { role: 'user', content: [{ type: 'text', text: ' {{user}} ' }] },
        { role: 'assistant', content: null, tool_calls: [] },
        { role: 'user', content: '' },
      ],
      before: [system('S')],
    },
  ]
  test.each(scenarios)('$what', ({ before, messages = question, ...scenario }) => {
    const persona = {
      name: scenario.name === undefined ? (scenario.card?.name ?? null) : scenario.name,
      card: scenario.card ?? null,
      userName: scenario.userName ?? 'User',
    }
    const sent = structuredClone(messages)

    const composed = composePrompt(persona, messages, { systemPrompt: scenario.systemPrompt ?? 'OPERATOR' })

    expect(composed).toEqual([...before, ...sent])
    expect(messages).toEqual(sent)
    expect(composed.filter(({ content }) => content === '' || content == null)).toEqual(
      sent.filter(({ content }) => content === '' || content == null),
    )
    expect(JSON.stringify(composed)).not.toContain('GREETING')
  })

  test('tells the model nothing of what is for people: notes, tags, creator, greetings, unknown extensions', () => {
    const data = {
      name: 'Moss',
      description: 'SHOWN',
      creator_notes: 'HIDDEN',
      creator: 'HIDDEN',
      character_version: 'HIDDEN',
      tags: ['HIDDEN'],
      first_mes: 'HIDDEN',
      alternate_greetings: ['HIDDEN'],
      group_only_greetings: ['HIDDEN'],
      creator_notes_multilingual: { de: 'HIDDEN' },
      source: ['HIDDEN'],
      assets: [{ type: 'icon', uri: 'HIDDEN', name: 'HIDDEN', ext: 'HIDDEN' }],
      extensions: { HIDDEN: 'HIDDEN' },
    }
    const read = readCard(JSON.stringify({ spec: 'chara_card_v3', spec_version: '3.0', data }))
    const composed = composePrompt({ name: 'Moss', card: read, userName: 'User' }, question, { systemPrompt: 'S' })
    expect(JSON.stringify(composed)).toContain('SHOWN')
    expect(JSON.stringify(composed)).not.toContain('HIDDEN')
  })
})

describe('readExamples', () => {
  const user = (text: string): Utterance => ({ speaker: 'user', text })
  const character = (text: string): Utterance => ({ speaker: 'character', text })
  const nobody = (text: string): Utterance => ({ speaker: null, text })

  interface Scenario {
    readonly what: string
    readonly examples: string
    readonly names?: { readonly character?: string; readonly user?: string; readonly nickname?: string }
    readonly blocks: readonly (readonly Utterance[])[]
  }
  const scenarios: readonly Scenario[] = [
    { what: 'nothing', examples: '', blocks: [] },
    { what: 'blanks', examples: ' \r\n\t ', blocks: [] },
    { what: 'a marker alone', examples: '<START>', blocks: [] },
    { what: 'markers without anything between', examples: '<START>\n<START> \n<START>', blocks: [] },
    { what: 'one block', examples: '<START>\nAda: Hi\nMoss: Oh', blocks: [[user('Hi'), character('Oh')]] },
    {
      what: 'text before the first marker',
      examples: 'Ada: Hi\n<START>\nMoss: Oh',
      blocks: [[user('Hi')], [character('Oh')]],
    },
    {
      what: 'markers in any letter case, anywhere',
      examples: 'Ada: Hi<start>Moss: Oh',
      blocks: [[user('Hi')], [character('Oh')]],
    },
    {
      what: 'lines that go on',
      examples: 'Ada: Hi\n  there\n\nfriend\nMoss: Oh',
      blocks: [[user('Hi\n  there\n\nfriend'), character('Oh')]],
    },
    {
      what: 'colons after the first',
      examples: 'Moss: At 10:30: tea: Ada: no',
      blocks: [[character('At 10:30: tea: Ada: no')]],
    },
    {
      what: 'speakers in any letter case, after blanks',
      examples: '  ADA: Hi\n\tmOSS:Oh',
      blocks: [[user('Hi'), character('Oh')]],
    },
    { what: 'lines before the first speaker', examples: '*Rain.*\nAda: Hi', blocks: [[nobody('*Rain.*'), user('Hi')]] },
    {
      what: 'a block without a speaker',
      examples: 'Once upon\na time',
      blocks: [[nobody('Once upon\na time')]],
    },
    {
      what: 'a name that only begins like a speaker',
      examples: 'Ada: Hi\nAdam: No\nMossy: No',
      blocks: [[user('Hi\nAdam: No\nMossy: No')]],
    },
    { what: 'a name without its colon', examples: 'Ada: Hi\nMoss says: No', blocks: [[user('Hi\nMoss says: No')]] },
    {
      what: 'names that would be patterns',
      examples: 'A.*(: Hi\nABC: No\nM[o: Oh',
      names: { user: 'A.*(', character: 'M[o' },
      blocks: [[user('Hi\nABC: No'), character('Oh')]],
    },
    {
      what: 'names with colons',
      examples: 'Dr: No: Hi\nDr: Hm',
      names: { character: 'Dr: No' },
      blocks: [[character('Hi\nDr: Hm')]],
    },
    {
      what: 'name and nickname',
      examples: 'Moss: One\nMo: Two',
      names: { nickname: 'Mo' },
      blocks: [[character('One'), character('Two')]],
    },
    {
      what: 'an empty nickname',
      examples: ': No\nAda: Hi',
      names: { nickname: '' },
      blocks: [[nobody(': No'), user('Hi')]],
    },
    {
      what: 'names beyond Latin',
      examples: 'Ада: Привет\nМОХ: О',
      names: { user: 'Ада', character: 'Мох' },
      blocks: [[user('Привет'), character('О')]],
    },
    {
      what: 'carriage returns',
      examples: 'Ada: Hi\r\nthere\r\nMoss: Oh\r',
      blocks: [[user('Hi\nthere'), character('Oh')]],
    },
    { what: 'one who says nothing', examples: 'Ada:\nMoss: Oh', blocks: [[user(''), character('Oh')]] },
  ]
  test.each(scenarios)('reads $what', ({ examples, names, blocks }) => {
    expect(readExamples(examples, { character: 'Moss', user: 'Ada', ...names })).toEqual(blocks)
  })
})

describe('readCard', () => {
  test.each([
    ['no JSON', '{"data":', 'it is not valid JSON'],
    ['nothing', '', 'it is not valid JSON'],
    ['an array', '[]', 'it is not a character card'],
    ['a scalar', '"Moss"', 'it is not a character card'],
    ['null', 'null', 'it is not a character card'],
    ['a card without data', '{"spec":"chara_card_v3"}', 'it is not a character card'],
    ['a card without a name', '{"spec":"chara_card_v3","data":{}}', 'it is not a character card'],
    ['a name that is a number', '{"spec":"chara_card_v3","data":{"name":5}}', 'it is not a character card'],
    [
      'an inherited name',
      '{"spec":"chara_card_v3","data":{"__proto__":{"name":"Moss"}}}',
      'it is not a character card',
    ],
  ])('refuses %s', (_what, json, reason) => {
    expect(() => readCard(json)).toThrow(new CardError(reason))
  })

  test('reads null, wrong types and missing fields as empty, and skips only what is broken', () => {
    const book = { entries: [null, 5, { keys: [' a ', ' ', 7], content: 'C' }, { keys: ['b'], enabled: false }] }
    const data = {
      name: 'Moss',
      description: null,
      personality: 5,
      first_mes: {},
      mes_example: [],
      alternate_greetings: 'x',
    }
    const read = readCard(`\uFEFF${JSON.stringify({ data: { ...data, character_book: book } })}`)
    expect(read).toEqual({
      ...card({ greetings: [''] }),
      lorebook: [{ name: '', keys: ['a'], content: 'C', constant: false, insertionOrder: 0 }],
    })
  })
})

describe('CharacterLibrary', () => {
  function folder(files: Readonly<Record<string, string>>): string {
    const { path, remove } = temporaryFolder()
    onTestFinished(remove)
    for (const [file, text] of Object.entries(files)) writeFileSync(join(path, file), text)
    return path
  }
  const named = (name: string, description = '') =>
    JSON.stringify({ spec: 'chara_card_v3', data: { name, description } })

  test('finds a name exactly, else in any letter case', () => {
    const library = new CharacterLibrary([folder({ 'a.json': named('Moss'), 'b.json': named('MOSS') })])
    expect(library.find('Moss')?.name).toBe('Moss')
    expect(library.find('MOSS')?.name).toBe('MOSS')
    expect(library.find('moss')?.name.toLowerCase()).toBe('moss')
    for (const name of ['', ' Moss', 'Moss ', 'Mos', 'a', 'a.json', 'M%6Fss']) {
      expect(library.find(name)).toBeUndefined()
    }
  })

  test('gives the digest of the bytes of the file', () => {
    const text = `\uFEFF${named('Moss')}\r\n`
    const library = new CharacterLibrary([folder({ 'a.json': text })])
    expect(library.find('Moss')?.digest).toBe(createHash('sha256').update(text).digest('hex'))
  })

  test('lets the later folder win, and takes a missing or repeated one for what it is', () => {
    const first = folder({ 'a.json': named('Moss', 'first'), 'b.json': named('Fir') })
    const second = folder({ 'z.json': named('Moss', 'second') })
    const library = new CharacterLibrary([first, second, join(second, 'missing'), second])
    expect(library.find('Moss')?.card.description).toBe('second')
    expect(library.find('moss')?.card.description).toBe('second')
    expect(library.find('Fir')?.name).toBe('Fir')
    expect(library.unreadable).toEqual([])
    expect(new CharacterLibrary([second, first]).find('Moss')?.card.description).toBe('first')
  })

  test('tells of files that hold no card, and reads the others', () => {
    const path = folder({
      'a.json': '{"secret":',
      'b.json': '[]',
      'c.JSON': named('Moss'),
      'd.txt': named('Not looked at'),
    })
    mkdirSync(join(path, 'folder.json'))
    symlinkSync(join(path, 'nowhere'), join(path, 'link.json'))
    const library = new CharacterLibrary([path])
    expect(library.find('Moss')?.name).toBe('Moss')
    expect(library.find('Not looked at')).toBeUndefined()
    expect(library.unreadable.map(({ file, reason }) => [file.split('/').at(-1), reason])).toEqual([
      ['a.json', 'it is not valid JSON'],
      ['b.json', 'it is not a character card'],
      ['folder.json', expect.stringMatching(/^it cannot be read/)],
      ['link.json', expect.stringMatching(/^it cannot be read/)],
    ])
    expect(JSON.stringify(library.unreadable)).not.toContain('secret')
  })

  test('failure mode 24: no name reads a file, whatever it looks like', () => {
    const path = folder({ 'a.json': named('Moss'), 'secret.json': 'not yet a card' })
    const library = new CharacterLibrary([path])
    writeFileSync(join(path, 'secret.json'), named('secret'))
    writeFileSync(join(path, 'new.json'), named('new'))
    const names = ['secret', 'secret.json', 'new', './new.json', join(path, 'new.json'), `file://${path}/new.json`]
    for (const name of [...names, '../a', '..', '.', '/', '\0', '__proto__', 'constructor', 'hasOwnProperty']) {
      expect(library.find(name)).toBeUndefined()
    }
    rmSync(path, { recursive: true })
    expect(library.find('Moss')?.name).toBe('Moss')
  })
})

describe('failure mode 24: an unknown or traversal-like character', () => {
  const secret = 'THE-SECRET-OF-THE-FILE'

  function names(dataDirectory: string): readonly string[] {
    return [
      'Nobody',
      'secret',
      'secret.json',
      '../secret.json',
      '../../secret',
      join(dataDirectory, 'secret.json'),
      `file://${dataDirectory}/secret.json`,
      '..%2fsecret.json',
      '..\\secret.json',
      'fern.json',
      'data/characters/fern.json',
      '/etc/passwd',
      '../../../../../../etc/passwd',
      '/etc/passwd\0.json',
      '.',
      '..',
      '__proto__',
      'constructor',
      'toString',
      "'; DROP TABLE accounts; --",
      'Fern@sha256:0000',
      'Fern/../Fern',
    ]
  }
  const ask = (character: string) => ({
    json: { model: 'understudy', character, messages: [{ role: 'user', content: 'Hello' }] },
  })

  test('is the same 404 for all where characters are closed', async () => {
    const service = await serviceForThisTest({ CHARACTERS: 'closed' })
    writeFileSync(
      join(service.dataDirectory, 'secret.json'),
      JSON.stringify({ data: { name: 'secret', first_mes: secret } }),
    )
    for (const name of names(service.dataDirectory)) {
      const response = await service.request('/chat/completions', ask(name))
      expect([name, response.status, response.headers.get('x-character')]).toEqual([name, 404, null])
      expect(await response.json()).toEqual({
        error: {
          message: 'There is no character of this name here. Check the name.',
          type: 'invalid_request_error',
          param: 'character',
          code: 'character_not_found',
        },
      })
    }
  })

  test('is played by its name alone where characters are open', async () => {
    const service = await serviceForThisTest()
    writeFileSync(
      join(service.dataDirectory, 'secret.json'),
      JSON.stringify({ data: { name: 'secret', first_mes: secret } }),
    )
    for (const name of names(service.dataDirectory)) {
      const response = await service.request('/chat/completions', ask(name))
      expect([name, response.status]).toEqual([name, 200])
      expect(response.headers.get('x-character')).toBe(encodeURIComponent(name))
      const text = await response.text()
      expect(text).not.toContain(secret)
      expect(text).not.toContain('root:')
    }
  })
})
