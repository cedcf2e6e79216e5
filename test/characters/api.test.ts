import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { starterFolder } from '../../src/characters/library/lookup.ts'
import { expectError, sendRaw } from '../support/http.ts'
import { serviceForThisTest, startTestService, type TestService, temporaryFolder } from '../support/service.ts'
import { everythingKept, openSql, type TestSql } from '../support/test-sql.ts'

const cardBodyLimit = 100_000
const folderSecret = 'OPERATORS-SECRET'
const annSecret = 'ANNS-SECRET'

let service: TestService
let sql: TestSql
let ann: string
let bob: string
let admin: string
let folder: ReturnType<typeof temporaryFolder>

beforeAll(async () => {
  folder = temporaryFolder()
  const data = folder.path
  mkdirSync(join(data, 'characters'), { recursive: true })
  const mallow = cardText('Mallow', { description: folderSecret, first_mes: 'Hello {{user}}, I am {{char}}.' })
  writeFileSync(join(data, 'characters', 'mallow.json'), mallow)
  service = await startTestService({ CARD_BODY_LIMIT: String(cardBodyLimit), DATA_DIR: data })
  sql = await openSql(service.dataDirectory)
  ann = await service.makeKey('ann', ['chat', 'characters:write'])
  bob = await service.makeKey('bob', ['chat', 'characters:write'])
  admin = await service.makeKey('operator', ['chat', 'admin'])
})

afterAll(async () => {
  await sql.close()
  await service.close()
  folder.remove()
})

type Fields = Readonly<Record<string, unknown>>

function cardText(name: unknown, fields: Fields = {}): string {
  return JSON.stringify({ spec: 'chara_card_v3', spec_version: '3.0', data: { name, ...fields } })
}

function digestOf(text: string): string {
  return `sha256:${createHash('sha256').update(text).digest('hex')}`
}

function call(
  key: string,
  method: string,
  path: string,
  body?: string,
  headers: Readonly<Record<string, string>> = {},
) {
  const all = { authorization: `Bearer ${key}`, ...headers }
  return service.request(path, { method, headers: all, ...(body === undefined ? {} : { body }) })
}

async function read(response: Response): Promise<Fields> {
  return JSON.parse(await response.text())
}

function at(name: string): string {
  return `/characters/${encodeURIComponent(name)}`
}

async function namesOf(key: string, query = ''): Promise<readonly string[]> {
  const { data }: { data: { name: string }[] } = JSON.parse(
    await (await call(key, 'GET', `/characters${query}`)).text(),
  )
  return data.map(({ name }) => name)
}

/** The card that a chat plays under a name, from the header of the reply; the status of a reply that is not a 200. */
async function played(key: string, character: string): Promise<string | null> {
  const messages = [{ role: 'user', content: 'Hello' }]
  const response = await call(
    key,
    'POST',
    '/chat/completions',
    JSON.stringify({ model: 'understudy', character, messages }),
  )
  await response.text()
  return response.status === 200 ? response.headers.get('x-character') : String(response.status)
}

describe('POST /characters', () => {
  test('stores the bytes unchanged, summarizes the card, and the next chat can play it', async () => {
    const text = `\uFEFF ${cardText('Añn/é ☘', { first_mes: 'Hi', system_prompt: 'S', extensions: { x: { y: 1 } }, new_field: [1] })}\r\n`
    const response = await call(ann, 'POST', '/characters', text)
    expect(response.status).toBe(201)
    expect(response.headers.get('location')).toBe(at('Añn/é ☘'))
    expect(await read(response)).toMatchObject({
      object: 'character',
      name: 'Añn/é ☘',
      digest: digestOf(text),
      spec: 'chara_card_v3',
      greetings: 1,
      lore_entries: 0,
      regexes: 0,
      refused_regexes: [],
      remote_assets: 0,
      has_system_prompt: true,
      ignored: expect.any(Array),
    })
    expect(await played(ann, 'añn/É ☘')).toBe(`${encodeURIComponent('Añn/é ☘')}@${digestOf(text)}`)
    const exported = await call(ann, 'GET', `${at('Añn/é ☘')}?format=json`)
    expect(exported.status).toBe(200)
    expect(exported.headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(exported.headers.get('x-content-type-options')).toBe('nosniff')
    expect(exported.headers.get('content-disposition')).toMatch(
      /^attachment; filename="character.json"; filename\*=UTF-8''A/,
    )
    expect(Buffer.from(await exported.arrayBuffer())).toEqual(Buffer.from(text))
  })

  test.each([
    'application/json',
    'image/png',
    'application/zip',
    'application/vnd.charx',
    'application/octet-stream',
    'APPLICATION/JSON; charset=utf-8',
  ])('accepts a JSON card sent as %s, because its bytes decide the format', async (type) => {
    const response = await call(bob, 'POST', '/characters', cardText(`sent as ${type}`), { 'content-type': type })
    expect(response.status).toBe(201)
  })

  test('with a taken name gets a 409 and changes nothing; names of other accounts and of starters are free', async () => {
    const [first, second] = [cardText('Taken', { description: '1' }), cardText('Taken', { description: '2' })]
    expect((await call(ann, 'POST', '/characters', first)).status).toBe(201)
    for (const again of [first, second]) {
      const refusal = await expectError(await call(ann, 'POST', '/characters', again), 'chat', 409)
      expect(refusal).toMatchObject({ code: 'name_taken', param: 'name' })
    }
    expect(await played(ann, 'Taken')).toBe(`Taken@${digestOf(first)}`)
    expect((await call(bob, 'POST', '/characters', second)).status).toBe(201)
    expect(await played(bob, 'Taken')).toBe(`Taken@${digestOf(second)}`)
    expect((await call(ann, 'POST', '/characters', cardText('Tolliver'))).status).toBe(201)
    expect(await played(ann, 'Tolliver')).toBe(`Tolliver@${digestOf(cardText('Tolliver'))}`)
    expect(await played(bob, 'Tolliver')).not.toBe(await played(ann, 'Tolliver'))
  })

  test.each<[string, string | Buffer, number, string]>([
    ['nothing', '', 400, 'card_invalid'],
    ['no JSON', '{"data": CANARY', 400, 'card_invalid'],
    ['a scalar', '"CANARY"', 400, 'card_invalid'],
    ['an array', '["CANARY"]', 400, 'card_invalid'],
    ['no card', '{"CANARY": 1}', 400, 'card_invalid'],
    ['a name that is a number', cardText(5), 400, 'card_invalid'],
    ['a blank name', cardText(' \n'), 400, 'card_invalid'],
    ['half of a surrogate pair as a name', `{"data": {"name": "CANARY\\ud83c"}}`, 400, 'card_invalid'],
    ['a name that is too long', cardText('CANARY'.repeat(40)), 400, 'card_invalid'],
    ['a name that pins', cardText('CANARY@sha256:00000000'), 400, 'card_invalid'],
    ['an inherited name', '{"data": {"__proto__": {"name": "CANARY"}}}', 400, 'card_invalid'],
    ['more than the limit', cardText('Big', { description: 'x'.repeat(cardBodyLimit) }), 413, 'body_too_large'],
  ])('refuses %s with a code, quotes nothing of the body, and writes nothing', async (_what, text, status, code) => {
    for (const [method, path] of [['POST', '/characters']] as const) {
      const before = await everythingKept(sql)
      const refusal = await expectError(
        await call(ann, method, path, text.toString(), { 'content-type': 'image/png' }),
        'chat',
        status,
      )
      expect(refusal.code).toBe(code)
      expect(refusal.everything).not.toContain('CANARY')
      expect(await everythingKept(sql)).toStrictEqual(before)
    }
  })

  test.each(['text/plain', 'multipart/form-data; boundary=x', 'application/x-www-form-urlencoded', 'image/webp'])(
    'refuses the content type %s, and names the accepted content types',
    async (type) => {
      const refusal = await expectError(
        await call(ann, 'POST', '/characters', cardText('Typed'), { 'content-type': type }),
        'chat',
        415,
      )
      expect(refusal).toMatchObject({ code: 'unsupported_media_type', message: expect.stringContaining('image/png') })
    },
  )
})

describe('PUT /characters/{name}', () => {
  test('stores under the name in the path, replaces an existing card, and keeps earlier versions for pins', async () => {
    const [first, second] = [cardText('Inner', { description: '1' }), cardText('Inner', { description: '2' })]
    const made = await call(ann, 'PUT', at('Outer'), first)
    expect([made.status, made.headers.get('location')]).toEqual([201, '/characters/Outer'])
    expect(await read(made)).toMatchObject({ name: 'Outer', digest: digestOf(first) })
    const replaced = await call(ann, 'PUT', at(' Outer '), second)
    expect([replaced.status, replaced.headers.get('location')]).toEqual([200, null])
    expect(await played(ann, 'Outer')).toBe(`Outer@${digestOf(second)}`)
    expect(await played(ann, `Outer@${digestOf(first)}`)).toBe(`Outer@${digestOf(first)}`)
    expect(await played(ann, `outer@${digestOf(first).slice(0, 15)}`)).toBe(`Outer@${digestOf(first)}`)
    expect((await call(ann, 'PUT', at('Outer'), first)).status).toBe(200)
    expect(await played(ann, 'Outer')).toBe(`Outer@${digestOf(first)}`)
    expect(await played(ann, 'Inner')).toBe('Inner')
  })

  test.each([
    ['a pin', 'Fern@sha256:0123456789', 'name'],
    ['blanks', '   ', 'name'],
    ['too long', '☘'.repeat(201), 'name'],
  ])('refuses a name that is %s', async (_what, name, param) => {
    const refusal = await expectError(await call(ann, 'PUT', at(name), cardText('Fine')), 'chat', 400)
    expect(refusal).toMatchObject({ code: 'invalid_field', param })
  })

  test.each([
    '☘'.repeat(200),
    'a/b?c#d%e',
    '__proto__',
    "'; DROP TABLE characters; --",
    '<b>&amp;</b>',
    '\u202eevil',
    'a\0b',
  ])('accepts any text as a name: %j', async (name) => {
    const text = cardText('x', { description: name })
    expect((await call(bob, 'PUT', at(name), text)).status).toBe(201)
    expect(await played(bob, name)).toBe(`${encodeURIComponent(name)}@${digestOf(text)}`)
    expect(await read(await call(bob, 'GET', at(name)))).toMatchObject({ name, digest: digestOf(text) })
    expect((await call(bob, 'DELETE', at(name))).status).toBe(204)
  })
})

describe('DELETE /characters/{name}', () => {
  test('removes an upload with its versions; then a hidden starter of its name is played, and pins of the upload get a 404', async () => {
    const text = cardText('Fern')
    const starter = await played(ann, 'Fern')
    await call(ann, 'POST', '/characters', text)
    expect(await played(ann, 'Fern')).toBe(`Fern@${digestOf(text)}`)
    const gone = await call(ann, 'DELETE', at('Fern'))
    expect([gone.status, await gone.text()]).toEqual([204, ''])
    expect(await played(ann, 'Fern')).toBe(starter)
    expect(await played(ann, `Fern@${digestOf(text)}`)).toBe('404')
  })

  test('of a starter or a card of the folder gets a 403, and of an unknown name a 404', async () => {
    for (const name of ['Fern', 'fern', 'Mallow']) {
      const refusal = await expectError(await call(bob, 'DELETE', at(name)), 'chat', 403)
      expect(refusal.code).toBe('character_read_only')
    }
    const refusal = await expectError(await call(bob, 'DELETE', at('Nobody')), 'chat', 404)
    expect(refusal.code).toBe('character_not_found')
  })
})

describe('GET /characters', () => {
  test('shows the first tags, and the beginning of a long creator', async () => {
    const key = await service.makeKey('long-tags', ['chat', 'characters:write'])
    const tags = [...Array.from({ length: 150 }, (_none, index) => `t${index}`), 'é'.repeat(30_000)]
    await call(key, 'POST', '/characters', cardText('Many', { tags, creator: `me${'🌿'.repeat(5_000)}` }))
    await call(key, 'POST', '/characters', cardText('Long', { tags: ['first', 'é'.repeat(2_000), 'last'] }))
    const { data } = await read(await call(key, 'GET', '/characters'))
    expect(data).toContainEqual(
      expect.objectContaining({ name: 'Many', tags: tags.slice(0, 100), creator: `me${'🌿'.repeat(99)}…` }),
    )
    expect(data).toContainEqual(expect.objectContaining({ name: 'Long', tags: ['first'] }))
  })

  test("lists the caller's uploads, the folder's cards and the starters by name; of equal names only the card that is played", async () => {
    const key = await service.makeKey('lister', ['chat', 'characters:write'])
    for (const name of ['Bolt', 'Zinnia', 'alder']) {
      await call(key, 'POST', '/characters', cardText(name, { tags: ['mine'], creator: 'me' }))
    }
    const list = await read(await call(key, 'GET', '/characters'))
    expect(list).toMatchObject({ object: 'list', has_more: false })
    const own = {
      origin: 'account',
      tags: ['mine'],
      creator: 'me',
      has_avatar: false,
      created: expect.any(Number),
      updated: expect.any(Number),
    }
    expect(list['data']).toEqual([
      {
        object: 'character',
        name: 'Bolt',
        digest: digestOf(cardText('Bolt', { tags: ['mine'], creator: 'me' })),
        ...own,
      },
      expect.objectContaining({ name: 'Captain Vesper', origin: 'starter', creator: 'Conservatory' }),
      expect.objectContaining({ name: 'Fern', origin: 'starter', tags: expect.arrayContaining(['botanist']) }),
      expect.objectContaining({ name: 'Mallow', origin: 'folder', tags: [], creator: '' }),
      expect.objectContaining({ name: 'Tolliver', origin: 'starter' }),
      { object: 'character', name: 'Zinnia', digest: expect.stringMatching(/^sha256:/), ...own },
      { object: 'character', name: 'alder', digest: expect.stringMatching(/^sha256:/), ...own },
    ])
    expect(JSON.stringify(list)).not.toContain(folderSecret)

    for (const [tag, names] of [
      ['MINE', ['Bolt', 'Zinnia', 'alder']],
      ['botanist', ['Fern']],
      ['nobody has this', []],
    ] as const) {
      const query = new URLSearchParams({ tag, limit: '3' })
      expect(await read(await call(key, 'GET', `/characters?${query}`))).toMatchObject({
        data: names.map((name) => ({ name })),
        has_more: false,
      })
    }

    const all = await namesOf(key)
    for (const limit of [1, 2, 3, 7, 1000]) {
      const seen: string[] = []
      for (let after = ''; ; ) {
        const page: { data: { name: string }[]; has_more: boolean } = JSON.parse(
          await (await call(key, 'GET', `/characters?${new URLSearchParams({ limit: String(limit), after })}`)).text(),
        )
        expect(page.data.length).toBeLessThanOrEqual(limit)
        seen.push(...page.data.map(({ name }) => name))
        if (!page.has_more) break
        after = page.data.at(-1)?.name ?? ''
      }
      expect(seen).toEqual(all)
    }
  })

  test.each(['limit=0', 'limit=1001', 'limit=x', 'limit=1&limit=2', 'after=a&after=b'])('refuses %s', async (query) => {
    await expectError(await call(ann, 'GET', `/characters?${query}`), 'chat', 400)
  })
})

describe('GET /characters/{name}', () => {
  const whole = {
    description: annSecret,
    personality: 'P',
    scenario: 'S',
    first_mes: 'I am {{char}}, {{user}}.',
    alternate_greetings: ['<BOT> again'],
    system_prompt: 'M',
    creator_notes: 'For people',
    creator_notes_multilingual: { de: 'Für Leute' },
    character_version: 2,
    tags: 'a, b,',
    character_book: { entries: [{ keys: ['k'], content: 'LORE', enabled: true, insertion_order: 1, extensions: {} }] },
    extensions: {},
  }

  test('shows the owner everything, with expanded greetings', async () => {
    await call(ann, 'PUT', at('Whole'), cardText('Whole', whole))
    expect(await read(await call(ann, 'GET', at('whole')))).toMatchObject({
      object: 'character',
      name: 'Whole',
      origin: 'account',
      digest: digestOf(cardText('Whole', whole)),
      tags: ['a', 'b'],
      creator_notes: 'For people',
      character_version: '2',
      greetings: [
        { index: 0, text: 'I am Whole, User.' },
        { index: 1, text: 'Whole again' },
      ],
      lore_entries: 1,
      has_system_prompt: true,
      created: expect.any(Number),
      card: { description: annSecret, system_prompt: 'M', character_book: whole.character_book },
    })
    const german = await read(
      await call(ann, 'GET', at('Whole'), undefined, { 'accept-language': 'fr;q=0.9, de-AT, en;q=0.1' }),
    )
    expect(german['creator_notes']).toBe('Für Leute')
    const french = await read(await call(ann, 'GET', at('Whole'), undefined, { 'accept-language': 'fr' }))
    expect(french['creator_notes']).toBe('For people')
    const pinned = await call(ann, 'GET', at(`Whole@${digestOf(cardText('Whole', whole))}`))
    expect(await read(pinned)).toMatchObject({ name: 'Whole' })
  })

  test("shows a card of the operator's folder only to the operator, and its public part to everybody", async () => {
    const seen = await call(bob, 'GET', at('Mallow'))
    const text = await seen.text()
    expect(text).not.toContain(folderSecret)
    expect(JSON.parse(text)).toMatchObject({
      name: 'Mallow',
      origin: 'folder',
      greetings: [{ index: 0, text: 'Hello User, I am Mallow.' }],
    })
    expect(JSON.parse(text)).not.toHaveProperty('card')
    for (const format of ['json', 'v2', 'png', 'charx']) {
      const refusal = await expectError(await call(bob, 'GET', `${at('Mallow')}?format=${format}`), 'chat', 403)
      expect(refusal.code).toBe('character_hidden')
    }
    expect(await (await call(admin, 'GET', at('Mallow'))).text()).toContain(folderSecret)
    expect(await (await call(admin, 'GET', `${at('Mallow')}?format=json`)).text()).toContain(folderSecret)
  })

  test('exports starters to everybody', async () => {
    const bytes = readFileSync(join(starterFolder, 'fern.json'))
    const response = await call(bob, 'GET', `${at('Fern')}?format=json`)
    expect(Buffer.from(await response.arrayBuffer())).toEqual(bytes)
    const v2 = await call(bob, 'GET', `${at('Fern')}?format=v2`)
    expect([v2.status, v2.headers.get('content-type')]).toEqual([200, 'application/json; charset=utf-8'])
    expect(await read(await call(bob, 'GET', at('Fern')))).toMatchObject({
      card: { description: expect.stringContaining('botanist') },
    })
  })

  test.each(['format=webp', 'format=', 'format=json&format=png'])('refuses %s', async (query) => {
    const refusal = await expectError(await call(bob, 'GET', `${at('Fern')}?${query}`), 'chat', 400)
    expect(refusal).toMatchObject({ code: 'invalid_field', param: 'format' })
  })
})

describe('a key', () => {
  test('needs a scope: chat or characters:write to read, characters:write to write', async () => {
    const keys = {
      chat: await service.makeKey('scopes', ['chat']),
      write: await service.makeKey('scopes', ['characters:write']),
      plants: await service.makeKey('scopes', ['plants:read', 'plants:write', 'admin']),
    }
    const statuses = async (key: string) => {
      const responses = [
        await call(key, 'GET', '/characters'),
        await call(key, 'GET', at('Fern')),
        await call(key, 'POST', '/characters', cardText('Scoped')),
        await call(key, 'PUT', at('Scoped'), cardText('Scoped')),
        await call(key, 'DELETE', at('Scoped')),
      ]
      return responses.map(({ status }) => status)
    }
    expect(await statuses(keys.chat)).toEqual([200, 200, 403, 403, 403])
    expect(await statuses(keys.plants)).toEqual([403, 403, 403, 403, 403])
    expect(await statuses(keys.write)).toEqual([200, 200, 201, 200, 204])
    for (const method of ['GET', 'POST']) {
      await expectError(await service.request('/characters', { method, headers: { authorization: null } }), 'chat', 401)
    }
  })
})

describe("an unknown, traversal-like or another account's name", () => {
  const asked = (data: string): readonly string[] => [
    'Nobody',
    'Private to Ann',
    'private to ann',
    `Private to Ann@${digestOf(cardText('Private to Ann', { description: annSecret }))}`,
    `Fern@${digestOf(cardText('Private to Ann', { description: annSecret }))}`,
    'Fern@sha256:',
    'Fern@sha256:0000',
    `Fern@sha256:${'0'.repeat(64)}`,
    '../../../etc/passwd',
    '..\\..\\secret',
    join(data, 'conservatory.db'),
    `file://${data}/characters/mallow.json`,
    'characters/mallow.json',
    'fern.json',
    'Fern/../Fern',
    '/etc/passwd\0.json',
    '__proto__',
    'constructor',
    'a\0b',
    "' OR 1=1 --",
  ]
  // The body for another version of Fern also names Fern, which every account may play.
  const withoutFern = (body: string) => body.replace(String.raw` Did you mean \"Fern\"?`, '')

  test('always gets the same 404 from /characters/{name}', async () => {
    await call(ann, 'PUT', at('Private to Ann'), cardText('Private to Ann', { description: annSecret }))
    const bodies = new Set<string>()
    for (const name of asked(service.dataDirectory)) {
      for (const [method, query] of [
        ['GET', ''],
        ['GET', '?format=json'],
        ['DELETE', ''],
      ] as const) {
        const response = await call(bob, method, at(name) + query)
        expect([name, method, response.status]).toEqual([name, method, 404])
        bodies.add(withoutFern(await response.text()))
      }
    }
    expect([...bodies]).toStrictEqual([expect.not.stringContaining(annSecret)])
    expect(await namesOf(bob)).not.toContain('Private to Ann')
    expect((await call(ann, 'GET', at('Private to Ann'))).status).toBe(200)
  })

  test('in a path that browsers would not send gets a 404', async () => {
    for (const path of ['/characters/..', '/characters/%2e%2e%2f%2e%2e%2fetc%2fpasswd', '/characters/.']) {
      const head = [`GET ${path} HTTP/1.1`, 'Host: x', 'Connection: close', `Authorization: Bearer ${bob}`]
      await expectError(await sendRaw(service.url, `${head.join('\r\n')}\r\n\r\n`), 'chat', 404)
    }
  })

  test('in a chat gets the same 404 with CHARACTERS=closed, else is played by its name alone; an unknown pin gets a 404', async () => {
    const closed = await serviceForThisTest({ CHARACTERS: 'closed' })
    const ask = (character: string) => ({
      json: { model: 'understudy', character, messages: [{ role: 'user', content: 'Hello' }] },
    })
    const bodies = new Set<string>()
    for (const name of asked(closed.dataDirectory)) {
      const refused = await closed.request('/chat/completions', ask(name))
      expect([name, refused.status, refused.headers.get('x-character')]).toEqual([name, 404, null])
      bodies.add(withoutFern(await refused.text()))
      const isPin = name.includes('@sha256:')
      expect([name, await played(bob, name)]).toEqual([name, isPin ? '404' : encodeURIComponent(name)])
    }
    expect([...bodies]).toHaveLength(1)
  })
})
