import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { NewPlant } from '../../src/plants/schemas.ts'
import { expectError } from '../support/http.ts'
import { often } from '../support/often.ts'
import { type Caller, newCaller, plantServiceForThisFile, service } from '../support/plant-callers.ts'
import { storesForThisTest } from '../support/test-database.ts'

plantServiceForThisFile()

const batch = (caller: Caller, json: unknown, path = '/plants/batch', headers: Record<string, string> = {}) =>
  caller.send(path, { json, headers })
const importCsv = (
  caller: Caller,
  body: string | Uint8Array<ArrayBuffer>,
  query = '',
  headers: Record<string, string> = {},
) =>
  caller.send(`/plants/import${query}`, { body, headers: { 'content-type': 'text/csv', ...headers }, method: 'POST' })
const exportCsv = async (caller: Caller) => (await caller.send('/plants?format=csv')).text()
const read = async (reply: Response) => JSON.parse(await reply.text())
const all = async (caller: Caller) => read(await caller.send('/plants?include=id'))
const named = (count: number) => Array.from({ length: count }, (_, index) => ({ name: `Fern ${index}` }))

const full = {
  name: 'Monstera',
  tag: 'aroid',
  species: 'Monstera deliciosa',
  place: 'Window, left',
  light: 'bright',
  acquired: '2024-02-29',
  notes: 'Two\r\nlines, "quoted"\ttab',
  archived: true,
}

describe('POST /plants/batch', () => {
  it('adds plants with details in their order, and shows them as POST /plants does', async () => {
    const caller = await newCaller()
    const reply = await batch(caller, [full, { name: ' Fern ', id: 9, colour: 'green' }, { name: 'Ivy' }])
    expect([reply.status, reply.headers.get('x-ignored-params')]).toEqual([200, 'colour'])
    expect(await reply.json()).toEqual([{ name: 'Monstera', tag: 'aroid' }, { name: 'Fern' }, { name: 'Ivy' }])
    const shown = await batch(caller, [full, { name: 'Moss' }], '/plants/batch?include=id,details')
    const times = { created: expect.any(Number), updated: expect.any(Number) }
    expect(await shown.json()).toEqual([
      { id: 11, ...full, ...times },
      { id: 12, name: 'Moss', ...times },
    ])
    const one = await caller.send('/plants/11?include=id,details')
    expect([one.headers.get('etag'), await one.json()]).toEqual([
      expect.stringMatching(/^"\d+\.id,details"$/),
      { id: 11, ...full, ...times },
    ])
  })

  it.each([
    ['an empty array', [], 400, 'send an array of 1 to 1000 plants'],
    ['1,001 plants', named(1001), 400, 'send an array of 1 to 1000 plants'],
    [
      'a text among plants',
      [{ name: 'a' }, 'b'],
      400,
      'The field "[1]" is not valid: send an object such as {"name": "Fern"}.',
    ],
    ['an object', { name: 'Fern' }, 400, 'send an array of 1 to 1000 plants'],
    ['an item that is no plant', [{ name: 'Fern' }, 7], 400, '"[1]"'],
    ['a plant without a name', [{ name: 'Fern' }, { tag: 'x' }], 400, '"[1].name" is missing'],
    ['a blank name', [{ name: 'Fern' }, { name: ' ' }], 400, 'Plant [1]: The field "name"'],
    ['a day that does not exist', [{ name: 'Fern', acquired: '2026-02-30' }], 400, 'Plant [0]: The field "acquired"'],
    [
      'an id that is there twice',
      [
        { name: 'a', id: 5 },
        { name: 'b', id: 5 },
      ],
      409,
      'Plant [1]: There is a plant',
    ],
  ])('refuses %s with its place, and writes nothing', async (_what, json, status, message) => {
    const caller = await newCaller()
    const { message: said } = await expectError(await batch(caller, json), 'plants', status)
    expect(said).toContain(message)
    expect(await all(caller)).toEqual([])
  })

  it('takes bodies of up to 8 MiB', async () => {
    const caller = await newCaller()
    const notes = 'n'.repeat(8000)
    const reply = await batch(
      caller,
      named(1000).map((plant) => ({ ...plant, notes })),
    )
    expect([reply.status, (await read(reply)).length]).toEqual([200, 1000])
    const large = named(1000).map((plant) => ({ ...plant, notes, extra: 'e'.repeat(1000) }))
    await expectError(await batch(caller, large), 'plants', 413)
  })

  it('respects the limit of plants', async () => {
    const caller = await newCaller()
    const { access } = await storesForThisTest(service.dataDirectory)
    const name = (await access.listAccounts()).find(({ id }) => id === caller.account)?.name ?? ''
    await access.limitAccount(name, { plants: 3 })
    const { message } = await expectError(await batch(caller, named(4)), 'plants', 429)
    expect(message).toContain('limit "plants" of 3')
    await expectError(await importCsv(caller, 'name\na\nb\nc\nd'), 'plants', 429)
    await expectError(await importCsv(caller, 'name\na\nb\nc\nd', '?dry_run=true'), 'plants', 429)
    expect((await batch(caller, named(3))).status).toBe(200)
  })

  it('leaves exact counts behind if requests of all sizes meet at the limit', async () => {
    const caller = await newCaller()
    const { access } = await storesForThisTest(service.dataDirectory)
    const name = (await access.listAccounts()).find(({ id }) => id === caller.account)?.name ?? ''
    const [rounds, room] = [6, 10]
    const singles = Array.from({ length: 8 }, () => [1, 2, 3, 4, 5])
    await access.limitAccount(name, { plants: rounds * (2 * 201 + 40) + room })
    for (let round = 0; round < rounds; round++) {
      const added = singles.map(async (each) => {
        for (const _one of each) expect((await caller.send('/plants', { json: { name: 'one' } })).status).toBe(200)
      })
      const many = [batch(caller, named(201)), batch(caller, named(201))]
      const replies = await Promise.all([...many, ...added])
      expect(replies.slice(0, 2)).toMatchObject([{ status: 200 }, { status: 200 }])
    }
    await expectError(await batch(caller, named(room + 1)), 'plants', 429)
    expect((await batch(caller, named(room))).status).toBe(200)
    await expectError(await batch(caller, named(1)), 'plants', 429)
  })

  it('adds plants once for an Idempotency-Key, which belongs to this route', async () => {
    const caller = await newCaller()
    const key = { 'idempotency-key': 'k' }
    const first = await batch(caller, [full, { name: 'Fern' }], '/plants/batch?include=id', key)
    const again = await batch(caller, [full, { name: 'Fern' }], '/plants/batch?include=id', key)
    expect([first, again].map(({ headers }) => headers.get('idempotency-replayed'))).toEqual([null, 'true'])
    expect(await again.json()).toEqual(await first.json())
    await expectError(await batch(caller, [{ name: 'Fern' }, full], '/plants/batch', key), 'plants', 422)
    expect(
      (await caller.send('/plants', { json: { name: 'Single' }, headers: key })).headers.has('idempotency-replayed'),
    ).toBe(false)
    expect((await importCsv(caller, 'name\nIvy', '', key)).headers.has('idempotency-replayed')).toBe(false)
    expect(await caller.names()).toEqual(['Monstera', 'Fern', 'Single', 'Ivy'])
  })
})

describe('a CSV file', () => {
  it('has all own plants with their details, and no formulas', async () => {
    const caller = await newCaller()
    await batch(caller, [full, { name: '=1+1', id: -5, tag: "'@home", place: "it's" }])
    const reply = await caller.send('/plants?format=csv&limit=1')
    expect(reply.headers.get('content-type')).toBe('text/csv; charset=utf-8; header=present')
    expect(reply.headers.get('x-ignored-params')).toBe('limit')
    expect(await reply.text()).toBe(
      [
        'id,name,tag,species,place,light,acquired,notes,archived',
        `-5,'=1+1,''@home,,it's,,,,`,
        '1,Monstera,aroid,Monstera deliciosa,"Window, left",bright,2024-02-29,"Two\r\nlines, ""quoted""\ttab",true',
        '',
      ].join('\r\n'),
    )
  })

  it('comes in with its columns in any order, a byte order mark, and columns that are not known', async () => {
    const caller = await newCaller()
    const text = '\uFEFFcolour, notes ,name,id\r\ngreen,"a\n\nb",\'-Fern,7\n\n,,"Ivy",\r'
    const dry = await importCsv(caller, text, '?dry_run=true')
    expect([dry.status, dry.headers.get('x-ignored-params'), await dry.json()]).toEqual([
      200,
      'colour',
      { object: 'import', plants: 2, dry_run: true },
    ])
    expect(await all(caller)).toEqual([])
    const reply = await importCsv(caller, text)
    expect(await reply.json()).toEqual({ object: 'import', plants: 2, dry_run: false })
    expect(await all(caller)).toEqual([
      { id: 7, name: '-Fern' },
      { id: 8, name: 'Ivy' },
    ])
    const { audit } = await storesForThisTest(service.dataDirectory)
    const records = await audit.list({ accountId: caller.account, action: 'account.imported', limit: 10 })
    expect(records).toMatchObject([{ actor: { kind: 'key' }, after: { plants: 2 } }])
  })

  const rows = (count: number) => Array.from({ length: count }, (_, index) => `Fern ${index}`).join('\n')
  it.each([
    ['no header', '', 'Line 1: the file is empty'],
    ['no column "name"', 'id,tag\n1,x', 'Line 1: the header has no column "name"'],
    ['a column twice', 'name,tag,name\na,b,c', 'Line 1: the column "name" is there twice'],
    ['a row with a cell too many', 'name,notes\na,b\nc,"a\nb"\nd,e,f', 'Line 5: the row has 3 cells'],
    ['a blank name', 'name,tag\r\na,"b\r\nc"\r\n', 'Line 2: The field "tag"'],
    ['an id that is no number', 'id,name\n1e3,a', 'Line 2: the id is no whole number'],
    ['an id with an apostrophe', "id,name\n'-5,a", 'Line 2: the id is no whole number'],
    ['an id that is too high', 'id,name\n9007199254740992,a', 'Line 2: the id is no whole number'],
    ['an id twice', 'id,name\n1,a\n\n1,b', 'Line 4: There is a plant with the id 1'],
    ['a day that does not exist', 'name,acquired\na,30.2.2026', 'Line 2: The field "acquired"'],
    ['archived with another word', 'name,archived\na,yes', 'Line 2: archived is neither'],
    ['an open quotation mark', 'name\na\n"b\nc', 'Line 3: a quoted cell has no closing quotation mark'],
    ['a quotation mark in a cell', 'name\na"b"', 'Line 2: a quotation mark is inside of a cell'],
    ['bytes that are not UTF-8', new Uint8Array([...Buffer.from('name\nFern'), 0xe9]), 'not UTF-8'],
    ['10,001 rows', `name\n${rows(10_001)}`, 'Line 10002: the file has more than 10000 plants'],
    ['a million columns', ','.repeat(1_000_000), 'Line 1: the row has more than 262144 bytes'],
    ['one giant cell', `name\n"${'x'.repeat(7_000_000)}"`, 'Line 2: the row has more than 262144 bytes'],
  ])('with %s is refused with its place, and nothing is written', async (_what, file, message) => {
    const caller = await newCaller()
    for (const query of ['', '?dry_run=true']) {
      const reply = await importCsv(caller, file, query)
      expect([400, 409]).toContain(reply.status)
      expect((await read(reply)).message).toContain(message)
    }
    expect(await all(caller)).toEqual([])
  })

  it('of another type is a 415, and over 8 MiB a 413', async () => {
    const caller = await newCaller()
    await expectError(await caller.send('/plants/import', { json: [] }), 'plants', 415)
    await expectError(await importCsv(caller, `name\n${'x'.repeat(8 * 1024 ** 2)}`), 'plants', 413)
    await expectError(await importCsv(caller, 'name\na', '?dry_run=yes'), 'plants', 400)
    const reader = await newCaller(['plants:read'])
    await expectError(await importCsv(reader, 'name\na'), 'plants', 403)
  })

  it('with 10,000 plants is added once for an Idempotency-Key, while others write', async () => {
    const [caller, other] = [await newCaller(), await newCaller()]
    const key = { 'idempotency-key': 'k' }
    const text = `name,notes\n${rows(10_000).replaceAll('\n', ',some notes\n')},some notes`
    const replies = await Promise.all([
      importCsv(caller, text, '', key),
      importCsv(caller, text, '', key),
      caller.post('{"name":"Between"}'),
      ...Array.from({ length: 20 }, () => other.post('{"name":"Other"}')),
      ...Array.from({ length: 5 }, () => caller.send('/keys', { json: { name: 'more', scopes: ['plants:read'] } })),
    ])
    expect(new Set(replies.slice(0, -5).map(({ status }) => status))).toEqual(new Set([200]))
    // A write in a transaction of its own waits too.
    expect(replies.slice(-5).map(({ status }) => status)).toEqual([201, 201, 201, 201, 201])
    expect(
      replies
        .slice(0, 2)
        .map(({ headers }) => headers.get('idempotency-replayed'))
        .toSorted(),
    ).toEqual([null, 'true'].toSorted())
    expect(await all(caller)).toHaveLength(10_001)
    expect(await all(other)).toHaveLength(20)
    await expectError(await importCsv(caller, text.replace('Fern 7,', 'Moss 7,'), '', key), 'plants', 422)
  })

  it('(property) that went out comes in again equal', async () => {
    const [from, to] = [await newCaller(), await newCaller()]
    const clear = async (caller: Caller) => {
      for (const { id } of await all(caller)) await caller.send(`/plants/${id}`, { method: 'DELETE' })
    }
    const part = fc.constantFrom("'", '=', '+', '-', '@', '"', ',', ';', ' ', 'x', 'é', '🌵', '\uFEFF', '#')
    const text = fc
      .array(part, { minLength: 1, maxLength: 6 })
      .map((parts) => parts.join('').trim())
      .filter((each) => each !== '')
    const notes = fc
      .array(fc.oneof(part, fc.constantFrom('\n', '\r', '\r\n', '\t', '\n\n')), { minLength: 1, maxLength: 8 })
      .map((parts) => parts.join('').trim())
      .filter((each) => each !== '')
    const option = { freq: 2, nil: undefined }
    const plant = fc.record({
      name: text,
      tag: fc.option(text, option),
      species: fc.option(text, option),
      place: fc.option(text, option),
      light: fc.option(text, option),
      acquired: fc.option(fc.constantFrom('2024-02-29', '1999-12-31'), option),
      notes: fc.option(notes, option),
      archived: fc.option(fc.constant(true), option),
    })
    await fc.assert(
      fc.asyncProperty(
        fc.array(plant, { minLength: 1, maxLength: 5 }),
        fc.integer({ min: -9, max: 9 }),
        async (plants, id) => {
          const given: NewPlant[] = JSON.parse(
            JSON.stringify(plants.map((each, index) => ({ ...each, id: id + index }))),
          )
          const sent = await batch(from, given)
          expect(sent.status).toBe(200)
          const file = await exportCsv(from)
          const reply = await importCsv(to, file)
          expect([reply.status, (await read(reply)).plants]).toEqual([200, plants.length])
          expect(await exportCsv(to)).toBe(file)
          const shown = await Promise.all(
            given.map(async (each) => read(await to.send(`/plants/${each.id}?include=id,details`))),
          )
          expect(shown.map(({ created, updated, ...each }) => each)).toEqual(given)
          await clear(from)
          await clear(to)
        },
      ),
      { numRuns: often(30) },
    )
  })
})
