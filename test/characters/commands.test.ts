import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { faultsOf, testsOf } from '../../src/characters/cards/card-tests.ts'
import { exportCard } from '../../src/characters/cards/export.ts'
import { readCardSource } from '../../src/characters/cards/source.ts'
import { starterFolder } from '../../src/characters/library/lookup.ts'
import { compileCache, conservatory, type Ended } from '../support/command.ts'
import { eventually } from '../support/eventually.ts'
import { spawnService } from '../support/process.ts'
import { serviceForThisTest, temporaryFolder } from '../support/service.ts'
import { makeDatabase, openStoresOf } from '../support/test-database.ts'

interface Here {
  readonly folder: string
  readonly run: (...args: readonly string[]) => Promise<Ended>
  /** Writes a file next to the data folder, and returns its path. */
  readonly file: (name: string, text: string | Uint8Array) => string
}

async function commandsForThisTest(): Promise<Here> {
  const { path, remove } = temporaryFolder()
  onTestFinished(remove)
  const folder = join(path, 'data')
  mkdirSync(folder)
  await makeDatabase(folder)
  return {
    folder,
    run: (...args) => conservatory(['characters', ...args], { DATA_DIR: folder }),
    file: (name, text) => {
      writeFileSync(join(path, name), text)
      return join(path, name)
    },
  }
}

function cardText(name: string, fields: Readonly<Record<string, unknown>> = {}): string {
  return JSON.stringify({ spec: 'chara_card_v3', spec_version: '3.0', data: { name, ...fields } })
}

function hexOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

describe('characters import', () => {
  test('writes cards into the folder, under file names made of their digests, never from the card', async () => {
    const { folder, run, file } = await commandsForThisTest()
    const [moss, evil] = [cardText('Moss'), cardText('../../evil')]
    const ended = await run('import', file('moss.txt', moss), file('evil.json', evil))
    expect(ended).toMatchObject({ code: 0, stdout: '' })
    expect(ended.stderr.split('\n')).toEqual([
      expect.stringContaining(`"Moss" (sha256:${hexOf(moss)}) is in `),
      expect.stringContaining('"../../evil"'),
      '',
    ])
    const files = [`${hexOf(moss)}.json`, `${hexOf(evil)}.json`]
    expect(readdirSync(join(folder, 'characters')).sort()).toEqual(files.sort())
    expect(readFileSync(join(folder, 'characters', `${hexOf(moss)}.json`), 'utf8')).toBe(moss)
    expect(await run('import', file('again.json', moss))).toMatchObject({ code: 0 })
    const other = file('other.json', cardText('Moss', { description: 'other' }))
    const taken = await run('import', other)
    expect(taken).toMatchObject({ code: 1, stdout: '' })
    expect(taken.stderr).toMatch(
      /other\.json: There is a character "Moss" in the folder already\. Replace it with --replace\.\n$/,
    )
    expect(await run('import', other, '--replace')).toMatchObject({ code: 0 })
    expect(existsSync(join(folder, 'characters', `${hexOf(moss)}.json`))).toBe(false)
    const listed: { name: string; origin: string }[] = JSON.parse((await run('list', '--json')).stdout)
    expect(listed.map(({ name, origin }) => [name, origin])).toEqual([
      ['../../evil', 'folder'],
      ['Bolt', 'starter'],
      ['Captain Vesper', 'starter'],
      ['Fern', 'starter'],
      ['Moss', 'folder'],
      ['Tolliver', 'starter'],
    ])
  })

  test('writes nothing if one of the cards is faulty, and names each fault', async () => {
    const { folder, run, file } = await commandsForThisTest()
    const files = [
      file('fine.json', cardText('Fine')),
      file('broken.json', '{"CANARY'),
      file('blank.json', cardText(' ')),
    ]
    const ended = await run('import', ...files, join(folder, 'nothing.json'))
    expect(ended).toMatchObject({ code: 1, stdout: '' })
    expect(ended.stderr.split('\n')).toEqual([
      expect.stringMatching(/broken\.json: .+\.$/),
      expect.stringMatching(/blank\.json: The card's name is blank; give the character a name\.$/),
      expect.stringMatching(/nothing\.json: There is no such file\.$/),
      '',
    ])
    expect(ended.stderr).not.toContain('CANARY')
    expect(existsSync(join(folder, 'characters'))).toBe(false)
  })

  test('with --account adds uploads to the account, and a running service plays them', async () => {
    const service = await serviceForThisTest()
    const key = await service.makeKey('ann', ['chat'])
    const { file } = await commandsForThisTest()
    const run = (...args: readonly string[]) =>
      conservatory(['characters', ...args], { DATA_DIR: service.dataDirectory })
    const path = file('moss.json', cardText('Moss', { first_mes: 'Damp hello.' }))
    expect(await run('import', path, '--account', 'ann')).toMatchObject({ code: 0 })
    const played = async (authorization: string) => {
      const json = { model: 'understudy', character: 'Moss', messages: [{ role: 'user', content: 'Hello' }] }
      return (await service.request('/chat/completions', { json, headers: { authorization } })).headers.get(
        'x-character',
      )
    }
    expect(await played(key)).toBe(`Moss@sha256:${hexOf(readFileSync(path, 'utf8'))}`)
    expect(await played(service.key)).toBe('Moss')
    const other = file('other.json', cardText('Moss'))
    expect((await run('import', other, '--account', 'ann')).stderr).toMatch(/Replace it with --replace\.\n$/)
    expect(await run('import', other, '--account', 'ann', '--replace')).toMatchObject({ code: 0 })
    expect(await played(key)).toBe(`Moss@sha256:${hexOf(cardText('Moss'))}`)
    expect(await run('export', 'moss', '--account', 'ann')).toEqual({ code: 0, stdout: cardText('Moss'), stderr: '' })
    expect(await run('export', 'Moss')).toMatchObject({ code: 1, stdout: '' })
    const listed = await run('list', '--account', 'ann', '--json')
    expect(JSON.parse(listed.stdout)).toContainEqual(expect.objectContaining({ name: 'Moss', origin: 'account' }))
    const nobody = await run('list', '--account', 'nobody')
    expect(nobody).toEqual({
      code: 1,
      stdout: '',
      stderr: 'There is no account "nobody". See: conservatory accounts list\n',
    })

    // The running service watches the folder and notices the import.
    expect(await run('import', file('fir.json', cardText('Fir')))).toMatchObject({ code: 0 })
    const names = async () => (await service.request('/characters')).text()
    await eventually(async () => expect(await names()).toContain('"Fir"'))
  })
})

describe('characters export', () => {
  test('prints the bytes of a card, or one sentence with the reason why not', async () => {
    const { run, file } = await commandsForThisTest()
    const fern = readFileSync(join(starterFolder, 'fern.json'), 'utf8')
    expect(await run('export', 'Fern')).toEqual({ code: 0, stdout: fern, stderr: '' })
    expect(await run('export', `fern@sha256:${hexOf(fern)}`, '--format', 'json')).toMatchObject({
      code: 0,
      stdout: fern,
    })
    expect(JSON.parse((await run('export', 'Fern', '--format', 'v2')).stdout)).toMatchObject({ data: { name: 'Fern' } })
    const picture = exportCard(readCardSource(Buffer.from(cardText('Pictured'))), 'png').bytes
    expect(await run('import', file('pictured.png', picture))).toMatchObject({ code: 0 })
    const lossy = await run('export', 'Pictured')
    expect(lossy).toMatchObject({ code: 0, stderr: 'The picture of the card is not in this format.\n' })
    const none = 'There is no character of this name here. Check the name.\n'
    expect(await run('export', '../characters/fern.json')).toEqual({ code: 1, stdout: '', stderr: none })
    expect(await run('export', 'Fern', '--format', 'webp')).toMatchObject({ code: 2, stdout: '' })
  })
})

describe('characters check', () => {
  test('reports for every file its content, its ignored fields and its faults', async () => {
    const { run, file } = await commandsForThisTest()
    const tests = [{ messages: [{ role: 'user', content: 'x' }], expect: { includes: ['y'] } }, { messages: [] }]
    const files = [
      file('fine.json', cardText('Fi\u001b[31mne', { first_mes: 'Hi', extensions: { conservatory: { tests } } })),
      file('book.json', JSON.stringify({ name: 'World', entries: [] })),
      file('broken.json', '{"CANARY'),
    ]
    const [people, programs] = await Promise.all([run('check', ...files), run('check', ...files, '--json')])
    expect(people.code).toBe(1)
    expect(people.stderr).toBe('1 of 3 files cannot be read.\n')
    expect(people.stdout).toMatch(
      /fine\.json: card .*ne" \(json\)\n {2}sha256:[0-9a-f]{64}\n {2}spec: chara_card_v3, .*tests: 1\n/,
    )
    expect(people.stdout).toContain('  warning: extensions.conservatory.tests[1] has no list of messages.\n')
    expect(people.stdout).toMatch(/book\.json: lorebook "World" \(json\)/)
    expect(people.stdout).toMatch(/broken\.json: cannot be read \(card_invalid\): /)
    expect(people.stdout).not.toContain('\u001b')
    expect(people.stdout).not.toContain('CANARY')
    expect(programs.code).toBe(1)
    expect(JSON.parse(programs.stdout)).toMatchObject([
      {
        kind: 'card',
        container: 'json',
        tests: 1,
        contents: { spec: 'chara_card_v3' },
        warnings: [expect.any(String)],
        error: null,
      },
      { kind: 'lorebook', name: 'World', error: null },
      { kind: null, error: { code: 'card_invalid' } },
    ])
    const starters = readdirSync(starterFolder).map((name) => join(starterFolder, name))
    expect(await run('check', ...starters)).toMatchObject({ code: 0, stderr: '' })
  })
})

describe('characters list', () => {
  test('prints no control characters to a terminal', async () => {
    const { run, file } = await commandsForThisTest()
    await run('import', file('evil.json', cardText('\u001b[31mred\u202e', { tags: ['\u0007'], creator: 'c' })))
    const { stdout } = await run('list')
    expect(stdout).toContain('\\u001b[31mred\\u202e')
    expect(stdout).toContain('\\u0007')
    expect(JSON.parse((await run('list', '--json')).stdout)[0]).toMatchObject({ name: '\u001b[31mred\u202e' })
  })
})

describe('characters test', () => {
  test.each(['Fern', 'Bolt', 'Tolliver', 'Captain Vesper'])(
    '%s passes its own tests with the understudy',
    async (name) => {
      const { run } = await commandsForThisTest()
      const ended = await run('test', name, '--model', 'understudy', '--json')
      const results: { passed: boolean; faults: string[] }[] = JSON.parse(ended.stdout)
      expect(results.flatMap(({ faults }) => faults)).toEqual([])
      expect(ended).toMatchObject({ code: 0, stderr: '' })
      expect(results.length).toBeGreaterThanOrEqual(5)
    },
  )

  test('has at least five tests for each starter, at least two of them with excludes', () => {
    for (const file of readdirSync(starterFolder)) {
      const document: Record<string, unknown> = JSON.parse(readFileSync(join(starterFolder, file), 'utf8'))
      const { tests, faults } = testsOf(document)
      expect(faults).toEqual([])
      expect(tests.length).toBeGreaterThanOrEqual(5)
      expect(tests.filter(({ excludes }) => excludes.length > 0).length).toBeGreaterThanOrEqual(2)
    }
  })

  test('prints a table, and exits with 1 when a test fails; an error of the model is a failed test', async () => {
    const { run, file } = await commandsForThisTest()
    const ask = (content: string, expect: object) => ({ messages: [{ role: 'user', content }], expect })
    const tests = [
      ask('Are you ever bored?', { includes: ['DAMP'], matches: ['^Damp'], excludes: ['dry'] }),
      ask('Are you ever bored?', { includes: ['dry'], excludes: ['STONES'], matches: ['x$'] }),
    ]
    const mes_example = '<START>\n{{user}}: Are you ever bored?\n{{char}}: Damp stones are company.'
    const text = cardText('Moss', { mes_example, extensions: { conservatory: { tests } } })
    await run('import', file('moss.json', text), file('none.json', cardText('None')))
    const ended = await run('test', 'Moss', '--model', 'understudy')
    expect(ended).toMatchObject({ code: 1, stderr: '1 of 2 tests failed.\n' })
    expect(ended.stdout).toMatch(
      /^TEST +SAID +PASSED +FAULTS +REPLY\n1 +Are you ever bored\? +true +Damp stones are company\.\n2 +Are you ever bored\? +false +does not include "dry",includes "STONES",does not match \/x\$\/ +Damp stones are company\.\n$/,
    )
    const failing = await run('test', 'Moss', '--model', 'understudy/500', '--json')
    expect(failing).toMatchObject({ code: 1, stderr: '2 of 2 tests failed.\n' })
    expect(await run('test', 'None', '--model', 'understudy')).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^The card has no tests/),
    })
    expect(await run('test', 'Nobody', '--model', 'understudy')).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^There is no character/),
    })
    expect(await run('test', 'Moss', '--model', 'nope')).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^There is no model "nope"/),
    })
    expect(await run('test', 'Moss')).toMatchObject({ code: 2 })
  })

  test.each([
    ['no list', 5, 'extensions.conservatory.tests is not a list.'],
    ['no object', [5], 'extensions.conservatory.tests[0] is not an object.'],
    ['no messages', [{ expect: { includes: ['x'] } }], 'extensions.conservatory.tests[0] has no list of messages.'],
    [
      'a message without a role',
      [{ messages: [{ content: 'x' }], expect: { includes: ['x'] } }],
      'extensions.conservatory.tests[0] has a message without a role or without content.',
    ],
    [
      'no expectation',
      [{ messages: [{ role: 'user', content: 'x' }], expect: {} }],
      'extensions.conservatory.tests[0] expects nothing.',
    ],
    [
      'a number',
      [{ messages: [{ role: 'user', content: 'x' }], expect: { includes: [5] } }],
      'extensions.conservatory.tests[0] expects something else than texts.',
    ],
    [
      'a bad pattern',
      [{ messages: [{ role: 'user', content: 'x' }], expect: { matches: ['('] } }],
      'extensions.conservatory.tests[0] has the pattern "(", which RE2 does not support: RE2 has no lookaround such as (?=…) and no back reference such as \\1.',
    ],
    [
      'a pattern that unfolds',
      [{ messages: [{ role: 'user', content: 'x' }], expect: { matches: ['(a{1,100}){1,10}'] } }],
      'extensions.conservatory.tests[0] has the pattern "(a{1,100}){1,10}", which repeats too much.',
    ],
  ])('refuses a faulty test: %s', (_what, tests, fault) => {
    expect(testsOf({ data: { extensions: { conservatory: { tests } } } }).faults).toEqual([fault])
  })

  test('compares includes and excludes without regard to case', () => {
    const expected = testReading({ includes: ['Moss'], excludes: ['AS AN AI'], matches: ['\\bnode\\b'] })
    expect(faultsOf('moss at the node', expected)).toEqual([])
    expect(faultsOf('As an AI', expected)).toEqual([
      'does not include "Moss"',
      'includes "AS AN AI"',
      'does not match /\\bnode\\b/',
    ])
  })

  test('a pattern that takes exponential time in other engines takes linear time', () => {
    const expected = testReading({ matches: ['^(a+)+$'] })
    expect(faultsOf('a'.repeat(60_000), expected)).toEqual([])
    expect(faultsOf(`${'a'.repeat(60_000)}!`, expected)).toEqual(['does not match /^(a+)+$/'])
  })
})

/** A parsed test of a card. */
function testReading(expect: object) {
  const tests = [{ messages: [{ role: 'user', content: 'x' }], expect }]
  const [read] = testsOf({ data: { extensions: { conservatory: { tests } } } }).tests
  if (!read) throw new Error('the test is not read')
  return read
}

test('the service logs the number of characters and each unreadable file after its start, and reads all again on SIGHUP', async () => {
  const { folder, file } = await commandsForThisTest()
  mkdirSync(join(folder, 'characters'))
  file('data/characters/moss.json', cardText('Moss'))
  // The old modification time shows that the file is not half written.
  utimesSync(file('data/characters/broken.json', '{"CANARY'), 0, 0)
  const service = await spawnService(process.execPath, ['src/main.ts'], {
    environment: { ...compileCache, DATA_DIR: folder },
  })
  const logged = () =>
    service
      .stdout()
      .split('\n')
      .filter((line) => /characters are|not read|models have/.test(line))
  await eventually(() => expect(logged()).toHaveLength(2))
  const [info = '', warning = ''] = logged()
  expect(JSON.parse(info)).toMatchObject({ level: 30, characters: 5, lorebooks: 0, msg: 'the characters are read' })
  const reason = expect.stringMatching(/JSON/)
  expect(JSON.parse(warning)).toMatchObject({ level: 40, file: expect.stringMatching(/broken\.json$/), reason })
  service.process.kill('SIGHUP')
  await eventually(() => expect(logged().some((line) => line.includes('the models have been read again'))).toBe(true))
  expect(logged().filter((line) => line.includes('the characters are read'))).toHaveLength(2)
  expect(service.stdout()).not.toContain('CANARY')
})

test('another process can open the database after a command', async () => {
  const { folder, run } = await commandsForThisTest()
  expect((await run('list')).code).toBe(0)
  await (await openStoresOf(folder)).close()
})
