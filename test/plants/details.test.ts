import { describe, expect, it } from 'vitest'
import { unixSeconds } from '../../src/time.ts'
import { expectError } from '../support/http.ts'
import { type Caller, newCaller, plantInBulk, plantServiceForThisFile, sql } from '../support/plant-callers.ts'

plantServiceForThisFile()

const all = {
  name: 'Monstera',
  tag: 'aroid',
  species: 'Monstera deliciosa',
  place: 'Living room',
  light: 'Bright',
  acquired: '2024-02-29',
  notes: 'From a cutting.\n\tWater it.',
  archived: true,
}
const details = '?include=details'

async function read(caller: Caller, path: string): Promise<Record<string, unknown>> {
  const response = await caller.send(path)
  expect(response.status).toBe(200)
  return JSON.parse(await response.text())
}

function patch(caller: Caller, path: string, json: unknown, headers: Record<string, string> = {}): Promise<Response> {
  return caller.send(path, {
    method: 'PATCH',
    body: JSON.stringify(json),
    headers: { 'content-type': 'application/merge-patch+json', ...headers },
  })
}

describe('details', () => {
  it('are set by POST, shown only if the request includes them, and not there for who does not', async () => {
    const caller = await newCaller()
    const before = unixSeconds()
    const added = await caller.send('/plants?include=id,details', { json: { ...all, id: 7 } })
    const shown = JSON.parse(await added.text())
    expect(shown).toEqual({ id: 7, ...all, created: shown.created, updated: shown.created })
    expect(shown.created).toBeGreaterThanOrEqual(before)
    expect(Object.keys(shown)).toEqual(['id', ...Object.keys(all), 'created', 'updated'])
    expect(await read(caller, '/plants/7?include=details,id')).toEqual(shown)
    const { id: _id, ...withoutId } = shown
    expect(await read(caller, `/plants/7${details}`)).toEqual(withoutId)
    expect(await (await caller.send('/plants/7')).text()).toBe('{"name":"Monstera","tag":"aroid"}')
    const plain = await caller.send('/plants', { json: { ...all, archived: false } })
    expect([plain.headers.get('x-ignored-params'), await plain.text()]).toEqual([
      null,
      '{"name":"Monstera","tag":"aroid"}',
    ])
    expect(await read(caller, `/plants/8${details}`)).not.toHaveProperty('archived')
  })

  it('are trimmed, and of old plants the times are those of the migration', async () => {
    const caller = await newCaller()
    await caller.post('{"name":"a","notes":" \\n kept \\n","place":" Hall "}')
    expect(await read(caller, `/plants/1${details}`)).toMatchObject({ notes: 'kept', place: 'Hall' })
    await plantInBulk(caller, [{ id: 2, name: 'old' }])
    const [row] = await sql.run<{ applied: number }>(
      "SELECT applied FROM migrations WHERE name LIKE '%-plants-worth-keeping'",
    )
    expect(row?.applied).toBeGreaterThan(1_700_000_000)
    const times = { created: row?.applied, updated: row?.applied }
    expect(await read(caller, `/plants/2${details}`)).toEqual({ name: 'old', ...times })
    await patch(caller, '/plants/2', { place: 'Hall' })
    const changed = await read(caller, `/plants/2${details}`)
    expect(changed).toEqual({ name: 'old', place: 'Hall', ...times, updated: expect.any(Number) })
  })

  it.for([
    { species: '' },
    { species: 'x'.repeat(256) },
    { place: 'a\nb' },
    { place: null },
    { light: 7 },
    { light: ['Bright'] },
    { acquired: '' },
    { acquired: '2026-02-29' },
    { acquired: '2026-2-1' },
    { acquired: '20260201' },
    { acquired: '2026-02-01T00:00:00Z' },
    { acquired: 20260201 },
    { notes: ' ' },
    { notes: 'x'.repeat(10_001) },
    { notes: 'nul \0' },
    { notes: '\ud800' },
    { archived: 'true' },
    { archived: 1 },
  ])('that are wrong are a 400 with their name, and nothing is written: %j', async (wrong) => {
    const caller = await newCaller()
    const [field = ''] = Object.keys(wrong)
    const refused = await expectError(await caller.send('/plants', { json: { name: 'a', ...wrong } }), 'plants', 400)
    expect(refused.message).toContain(`"${field}"`)
    expect(refused.message).not.toContain('expected')
    await caller.post('{"name": "a", "id": 7}')
    const before = await sql.run('SELECT * FROM plants WHERE account = ?', caller.account)
    if (Object.values(wrong)[0] !== null) {
      const { message } = await expectError(await patch(caller, '/plants/7', wrong), 'plants', 400)
      expect(message).toContain(`"${field}"`)
    }
    expect(await sql.run('SELECT * FROM plants WHERE account = ?', caller.account)).toEqual(before)
    expect(await sql.run('SELECT * FROM plant_details WHERE account = ?', caller.account)).toEqual([])
  })

  it('of a repeated request are those of the first reply', async () => {
    const caller = await newCaller()
    const send = () => caller.send('/plants?include=id,details', { json: all, headers: { 'idempotency-key': 'k' } })
    const first = await (await send()).text()
    await patch(caller, '/plants/1', { name: 'Changed', place: null, notes: 'Changed' })
    const again = await send()
    expect([again.headers.get('idempotency-replayed'), await again.text()]).toEqual(['true', first])
  })

  it('go with their plant', async () => {
    const caller = await newCaller()
    await caller.send('/plants', { json: { ...all, id: 7 } })
    await caller.send('/plants/7', { method: 'DELETE' })
    await caller.post('{"name": "b", "id": 7}')
    expect(Object.keys(await read(caller, `/plants/7${details}`))).toEqual(['name', 'created', 'updated'])
  })
})

describe('PATCH /plants/{id}', () => {
  it('changes what it names, removes what is null, and leaves the rest', async () => {
    const caller = await newCaller()
    await caller.send('/plants', { json: { ...all, id: 7 } })
    const changed = await patch(caller, `/plants/7${details}`, {
      name: ' Fern ',
      tag: null,
      light: null,
      archived: false,
      colour: 'green',
      created: 1,
    })
    expect(changed.headers.get('x-ignored-params')).toBe('colour,created')
    const { tag: _tag, light: _light, archived: _archived, ...rest } = all
    const expected = { ...rest, name: 'Fern', created: expect.any(Number), updated: expect.any(Number) }
    expect(JSON.parse(await changed.text())).toEqual(expected)
    expect(await read(caller, `/plants/7${details}`)).toEqual(expected)
    expect(await (await caller.send('/plants')).text()).toBe('[{"name":"Fern"}]')
    const bare = Object.fromEntries(Object.keys(all).map((name) => [name, name === 'name' ? 'Bare' : null]))
    expect(await (await patch(caller, '/plants/7', bare)).text()).toBe('{"name":"Bare"}')
    expect(await sql.run('SELECT * FROM plant_details WHERE account = ?', caller.account)).toEqual([])
  })

  it.for([
    [{ name: null }, '"name"'],
    [{ name: '' }, '"name"'],
    [{ name: 7 }, '"name"'],
    [{ id: 7 }, '"id"'],
    [{ id: null }, '"id"'],
    [{ tag: 'x'.repeat(256) }, '"tag"'],
    [{ species: ['x'] }, '"species" is not valid: send a text, or null to remove it'],
    [{ archived: 1 }, '"archived" is not valid: send true, false, or null to remove it'],
    [[], 'object'],
    [null, 'object'],
    ['text', 'object'],
  ])('refuses %j with a 400 that names the place', async ([body, place]) => {
    const caller = await newCaller()
    await caller.post('{"name": "a", "id": 7}')
    const { message } = await expectError(await patch(caller, '/plants/7', body), 'plants', 400)
    expect(message).toContain(place)
    expect(await caller.names()).toEqual(['a'])
  })

  it('takes two content types, names them in Accept-Patch, and refuses others', async () => {
    const caller = await newCaller()
    await caller.post('{"name": "a", "id": 7}')
    const accepted = 'application/merge-patch+json, application/json'
    const bodies: readonly (readonly [string, number])[] = [
      ['application/merge-patch+json', 200],
      ['Application/Merge-Patch+JSON; charset=utf-8', 200],
      ['application/json', 200],
      ['application/json-patch+json', 415],
      ['application/merge-patch+jsonx', 415],
      ['text/plain', 415],
    ]
    for (const [type, status] of bodies) {
      const response = await patch(caller, '/plants/7', { tag: 't' }, { 'content-type': type })
      expect([type, response.status, response.headers.get('accept-patch')]).toEqual([type, status, accepted])
    }
    const headers = { 'content-type': 'application/merge-patch+json' }
    await expectError(await caller.send('/plants', { body: '{"name":"b"}', headers }), 'plants', 415)
  })

  it('is a 404 for a plant of nobody and of others, and a 403 for a key that only reads', async () => {
    const [owner, stranger, reader] = [await newCaller(), await newCaller(), await newCaller(['plants:read'])]
    await owner.post('{"name": "a", "id": 7}')
    for (const id of [7, 8]) await expectError(await patch(stranger, `/plants/${id}`, { name: 'b' }), 'plants', 404)
    await expectError(await patch(reader, '/plants/7', { name: 'b' }), 'plants', 403)
    expect(await owner.names()).toEqual(['a'])
  })
})

describe('the ETag of a plant', () => {
  it('is its version, grows with each change, and has the include behind it', async () => {
    const caller = await newCaller()
    await caller.post('{"name": "a", "id": 7}')
    const tag = async (query = '') => (await caller.send(`/plants/7${query}`)).headers.get('etag') ?? ''
    const versionOf = (etag: string | null) => Number(/^"(\d+)"$/.exec(etag ?? '')?.[1])
    const first = versionOf(await tag())
    expect([await tag('?include=id'), await tag('?include=details,id')]).toEqual([
      `"${first}.id"`,
      `"${first}.details,id"`,
    ])
    expect([await tag('?include=care'), await tag('?include=id,due')]).toEqual(['', ''])
    const second = (await patch(caller, '/plants/7?include=id', { tag: 't' })).headers.get('etag')?.replace('.id', '')
    expect(versionOf(second ?? '')).toBeGreaterThan(first)
    expect((await patch(caller, '/plants/7', { tag: 't' })).headers.get('etag')).toBe(second)
    expect((await patch(caller, '/plants/7?include=due', { tag: 'u' })).headers.get('etag')).toBeNull()
    expect(versionOf(await tag())).toBeGreaterThan(versionOf(second ?? ''))
  })

  it.for(['/plants', '/plants/batch'])(
    'is new for a plant that gets the id of a deleted one from POST %s',
    async (path) => {
      const caller = await newCaller()
      const add = (name: string) => caller.send(path, { json: path === '/plants' ? { name } : [{ name }] })
      await add('old')
      const headers = { 'if-none-match': (await caller.send('/plants/1')).headers.get('etag') }
      const ifSame = { 'if-match': headers['if-none-match'] }
      expect((await caller.send('/plants/1', { headers })).status).toBe(304)
      await caller.send('/plants/1', { method: 'DELETE' })
      await add('new')
      expect(await (await caller.send('/plants/1', { headers })).text()).toBe('{"name":"new"}')
      expect((await caller.send('/plants/1', { method: 'DELETE', headers: ifSame })).status).toBe(412)
    },
  )

  it.for([
    ['"1"', '', 304],
    ['W/"1"', '', 304],
    ['"0", W/"1"', '', 304],
    ['*', '', 304],
    ['"1.details,id"', '?include=details,id', 304],
    ['"x", "1.details,id"', '?include=details,id', 304],
    ['"1"', '?include=id', 200],
    ['"1.id"', '', 200],
    ['"2"', '', 200],
    ['1', '', 200],
  ] as const)('If-None-Match %s of /plants/7%s gets %i', async ([header, query, status]) => {
    const caller = await newCaller()
    await plantInBulk(caller, [{ id: 7, name: 'a' }])
    const response = await caller.send(`/plants/7${query}`, { headers: { 'if-none-match': header } })
    expect(response.status).toBe(status)
    expect(response.headers.get('etag')).toMatch(/^"1/)
    if (status === 304) expect(await response.text()).toBe('')
  })

  it.for([
    [{ 'if-match': '"2"' }, true],
    [{ 'if-match': '"2.id"' }, true],
    [{ 'if-match': '"1", "2"' }, true],
    [{ 'if-match': '*' }, true],
    [{ 'if-match': 'W/"2"' }, false],
    [{ 'if-match': '"1"' }, false],
    [{ 'if-match': '"1", "3"' }, false],
    [{ 'if-match': '2' }, false],
    [{ 'if-match': '' }, false],
    [{ 'if-none-match': '*' }, false],
    [{ 'if-none-match': 'W/"2"' }, false],
    [{ 'if-none-match': '"1"' }, true],
  ] as const)('%j allows a change of version 2: %s', async ([headers, isAllowed]) => {
    const caller = await newCaller()
    await plantInBulk(caller, [{ id: 7, name: 'b' }])
    await sql.run('UPDATE plants SET version = 2 WHERE account = ?', caller.account)
    const missing = await caller.send('/plants/8', { method: 'DELETE', headers })
    expect(missing.status).toBe(404)
    await expectError(await patch(caller, '/plants/8', { name: 'c' }, headers), 'plants', 404)
    const removed = () => caller.send('/plants/7', { method: 'DELETE', headers })
    if (isAllowed) {
      expect((await removed()).status).toBe(204)
      return
    }
    const { message } = await expectError(await removed(), 'plants', 412)
    expect(message).toContain('send its new ETag, with the quotes')
    await expectError(await patch(caller, '/plants/7', { name: 'c' }, headers), 'plants', 412)
    expect(await caller.names()).toEqual(['b'])
  })

  it('lets one of many changes at once win', async () => {
    const caller = await newCaller()
    await plantInBulk(caller, [{ id: 7, name: 'a' }])
    const changes = Array.from({ length: 8 }, (_none, index) =>
      patch(caller, '/plants/7', { name: `by ${index}` }, { 'if-match': '"1"' }),
    )
    const ended = await Promise.all(changes)
    expect(ended.map(({ status }) => status).toSorted()).toEqual([200, ...Array(7).fill(412)])
  })
})
