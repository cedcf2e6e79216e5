import { once } from 'node:events'
import { connect } from 'node:net'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import type { Scope } from '../../src/access/access.ts'
import { writeCursor } from '../../src/plants/cursor.ts'
import type { Plant } from '../../src/plants/plant.ts'
import { eventually } from '../support/eventually.ts'
import { expectError } from '../support/http.ts'
import { everythingKept } from '../support/kept.ts'
import { namesOf } from '../support/plant-pages.ts'
import { type RequestOptions, startTestService, type TestService } from '../support/service.ts'
import { storesForThisTest } from '../support/test-database.ts'
import { openSql, type TestSql } from '../support/test-sql.ts'

const highest = Number.MAX_SAFE_INTEGER
const cactus = '🌵'

let service: TestService
/** Plants in bulk, and sees what is kept. */
let sql: TestSql

beforeAll(async () => {
  service = await startTestService()
  sql = await openSql(service.dataDirectory)
})

afterAll(async () => {
  await sql.close()
  await service.close()
})

interface Caller {
  readonly account: number
  send(path: string, options?: RequestOptions): Promise<Response>
  /** Sends this JSON text to `POST /plants`. */
  post(text: string): Promise<Response>
  /** The names in `GET /plants`, in its order. */
  names(query?: string): Promise<readonly string[]>
}

interface Row {
  readonly id: number
  readonly name: string
  readonly tag?: string
}

let callers = 0

/** Somebody with an empty account of their own. */
async function newCaller(scopes?: readonly Scope[]): Promise<Caller> {
  const account = `account ${++callers}`
  const key = await service.makeKey(account, scopes)
  const send = (path: string, options: RequestOptions = {}) =>
    service.request(path, { ...options, headers: { authorization: `Bearer ${key}`, ...options.headers } })
  const [row] = await sql.run<{ readonly id: number }>('SELECT id FROM accounts WHERE name = ?', account)
  return {
    account: row?.id ?? 0,
    send,
    post: (text) => send('/plants', { body: text }),
    async names(query = '') {
      const plants = await readPlants(await send(`/plants${query}`))
      return plants.map(({ name }) => name)
    },
  }
}

function plantInBulk({ account }: Caller, rows: readonly Row[]): Promise<void> {
  return sql.insert(
    'plants',
    rows.map(({ id, name, tag = null }) => ({ account, id, name, tag })),
  )
}

/** The address of the next page, and that the header has exactly its form. */
function nextPage(response: Response): string | undefined {
  const link = response.headers.get('link')
  if (link === null) return undefined
  expect(link).toMatch(/^<\/plants\?[^<>]+>; rel="next"$/)
  return link.slice(1, link.indexOf('>'))
}

async function readPlants(response: Response): Promise<Plant[]> {
  return JSON.parse(await response.text())
}

async function readPages(caller: Caller, first: string, between?: () => Promise<void>): Promise<readonly Plant[][]> {
  const pages: Plant[][] = []
  for (let path: string | undefined = first; path !== undefined; ) {
    const response = await caller.send(path)
    expect(response.status).toBe(200)
    pages.push(await readPlants(response))
    path = nextPage(response)
    await between?.()
  }
  return pages
}

describe('POST /plants', () => {
  it.for([
    { what: 'a name alone', send: '{"name": "Monstera"}', reply: { name: 'Monstera' }, location: '/plants/1' },
    {
      what: 'name, id and tag',
      send: '{"name": "Monstera", "id": 7, "tag": "Aroid \\u0130"}',
      reply: { name: 'Monstera', tag: 'Aroid İ' },
      location: '/plants/7',
    },
    { what: 'the id 0', send: '{"name": "a", "id": 0}', reply: { name: 'a' }, location: '/plants/0' },
    { what: 'the id -0, which is 0', send: '{"name": "a", "id": -0}', reply: { name: 'a' }, location: '/plants/0' },
    { what: 'a negative id', send: '{"name": "a", "id": -12}', reply: { name: 'a' }, location: '/plants/-12' },
    {
      what: 'the highest id there can be',
      send: '{"name": "a", "id": 9007199254740991}',
      reply: { name: 'a' },
      location: '/plants/9007199254740991',
    },
    {
      what: 'the lowest id there can be',
      send: '{"name": "a", "id": -9007199254740991}',
      reply: { name: 'a' },
      location: '/plants/-9007199254740991',
    },
    {
      what: 'a whole number in another notation',
      send: '{"name": "a", "id": 1.2e1}',
      reply: { name: 'a' },
      location: '/plants/12',
    },
    {
      what: 'texts with blanks around them, trimmed',
      send: JSON.stringify({ name: ' \t\u00a0Monstera deliciosa\u2003\n', tag: '  big  aroid ' }),
      reply: { name: 'Monstera deliciosa', tag: 'big  aroid' },
      location: '/plants/1',
    },
    {
      what: 'texts of one character',
      send: '{"name": "M", "tag": "m"}',
      reply: { name: 'M', tag: 'm' },
      location: '/plants/1',
    },
    {
      what: 'texts of 255 characters',
      send: JSON.stringify({ name: 'n'.repeat(255), tag: ` ${'t'.repeat(255)} ` }),
      reply: { name: 'n'.repeat(255), tag: 't'.repeat(255) },
      location: '/plants/1',
    },
    {
      what: 'texts of 255 characters outside the basic plane',
      send: JSON.stringify({ name: cactus.repeat(255), tag: cactus.repeat(255) }),
      reply: { name: cactus.repeat(255), tag: cactus.repeat(255) },
      location: '/plants/1',
    },
    {
      what: 'a surrogate pair written as two escapes',
      send: '{"name": "\\ud83c\\udf35", "tag": "caf\\u00e9"}',
      reply: { name: cactus, tag: 'café' },
      location: '/plants/1',
    },
    {
      what: 'texts that mean something elsewhere, as they are',
      send: JSON.stringify({ name: "'); DROP TABLE plants; --", tag: '<b>%00\\n$&{{char}}</b>' }),
      reply: { name: "'); DROP TABLE plants; --", tag: '<b>%00\\n$&{{char}}</b>' },
      location: '/plants/1',
    },
    {
      what: 'unknown properties, which are ignored',
      send: '{"name": "a", "account": 1, "__proto__": {"tag": "x"}, "constructor": null, "Tag": 5, "ID": "x", "": [{}]}',
      reply: { name: 'a' },
      location: '/plants/1',
    },
  ])('takes $what', async ({ send, reply, location }) => {
    const caller = await newCaller()
    const response = await caller.post(send)
    const text = await response.text()
    expect({ status: response.status, text }).toStrictEqual({ status: 200, text: JSON.stringify(reply) })
    expect(response.headers.get('location')).toBe(location)
    expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(response.headers.get('x-request-id')).toMatch(/^req_/)
    const kept = await caller.send(location)
    expect({ status: kept.status, text: await kept.text() }).toStrictEqual({ status: 200, text })
    expect(await (await caller.send('/plants')).text()).toBe(`[${text}]`)
  })

  it.for([
    { what: 'no name', send: '{"tag": "CANARY"}', field: 'name' },
    { what: 'a name of null', send: '{"name": null}', field: 'name' },
    { what: 'a name that is a number', send: '{"name": 5}', field: 'name' },
    { what: 'a name that is true', send: '{"name": true}', field: 'name' },
    { what: 'a name that is an array', send: '{"name": ["CANARY"]}', field: 'name' },
    { what: 'a name that is an object', send: '{"name": {"toString": "CANARY"}}', field: 'name' },
    { what: 'an empty name', send: '{"name": ""}', field: 'name' },
    { what: 'a name of blanks', send: JSON.stringify({ name: ' \t\r\n\u00a0\u2003\u3000\ufeff' }), field: 'name' },
    { what: 'a name of 256 characters', send: JSON.stringify({ name: 'n'.repeat(256) }), field: 'name' },
    { what: 'a name of 256 cactuses', send: JSON.stringify({ name: cactus.repeat(256) }), field: 'name' },
    { what: 'a name of 100,000 characters', send: JSON.stringify({ name: 'n'.repeat(100_000) }), field: 'name' },
    { what: 'a name with a NUL', send: '{"name": "CANARY\\u0000x"}', field: 'name' },
    { what: 'a name with a tab in it', send: '{"name": "CANARY\\tx"}', field: 'name' },
    { what: 'a name with a line break in it', send: '{"name": "CANARY\\nx"}', field: 'name' },
    { what: 'a name with an escape character', send: '{"name": "\\u001b[31mCANARY"}', field: 'name' },
    { what: 'a name with DEL', send: '{"name": "CANARY\\u007f"}', field: 'name' },
    { what: 'a name with a C1 control character', send: '{"name": "\\u0085CANARY"}', field: 'name' },
    { what: 'half of a surrogate pair at the end', send: '{"name": "CANARY\\ud800"}', field: 'name' },
    { what: 'half of a surrogate pair at the start', send: '{"name": "\\udf35CANARY"}', field: 'name' },
    { what: 'a surrogate pair the wrong way round', send: '{"name": "CANARY\\udf35\\ud83c"}', field: 'name' },
    { what: 'a tag of null', send: '{"name": "a", "tag": null}', field: 'tag' },
    { what: 'a tag that is a number', send: '{"name": "a", "tag": 7}', field: 'tag' },
    { what: 'a tag that is a list', send: '{"name": "a", "tag": ["CANARY"]}', field: 'tag' },
    { what: 'an empty tag', send: '{"name": "a", "tag": ""}', field: 'tag' },
    { what: 'a tag of blanks', send: '{"name": "a", "tag": "  "}', field: 'tag' },
    { what: 'a tag of 256 cactuses', send: JSON.stringify({ name: 'a', tag: cactus.repeat(256) }), field: 'tag' },
    { what: 'a tag with a control character', send: '{"name": "a", "tag": "CANARY\\u0007!"}', field: 'tag' },
    { what: 'half of a surrogate pair in the tag', send: '{"name": "a", "tag": "\\ud800"}', field: 'tag' },
    { what: 'an id in quotes', send: '{"name": "a", "id": "7"}', field: 'id' },
    { what: 'an id of null', send: '{"name": "a", "id": null}', field: 'id' },
    { what: 'an id of true', send: '{"name": "a", "id": true}', field: 'id' },
    { what: 'an id in a list', send: '{"name": "a", "id": [7]}', field: 'id' },
    { what: 'a fractional id', send: '{"name": "a", "id": 7.5}', field: 'id' },
    { what: 'an id of 2^53', send: '{"name": "a", "id": 9007199254740992}', field: 'id' },
    { what: 'an id that JSON.parse rounds', send: '{"name": "a", "id": 9007199254740993}', field: 'id' },
    { what: 'an id of -2^53', send: '{"name": "a", "id": -9007199254740992}', field: 'id' },
    { what: 'an id of 2^63 - 1', send: '{"name": "a", "id": 9223372036854775807}', field: 'id' },
    { what: 'an id beyond every number', send: '{"name": "a", "id": 1e400}', field: 'id' },
    { what: 'a list', send: '[{"name": "CANARY"}]', field: 'JSON object' },
    { what: 'a text', send: '"CANARY"', field: 'JSON object' },
    { what: 'a number', send: '7', field: 'JSON object' },
    { what: 'null', send: 'null', field: 'JSON object' },
    { what: 'an empty object', send: '{}', field: 'name' },
  ])('refuses $what: 400 that names the fault, and nothing is written', async ({ send, field }) => {
    const caller = await newCaller()
    const before = await everythingKept(sql)
    const response = await caller.post(send)
    const { message, everything } = await expectError(response, 'plants', 400)
    expect(message).toContain(field.includes(' ') ? field : `"${field}"`)
    expect(everything).not.toContain('CANARY')
    expect(response.headers.get('location')).toBeNull()
    expect(await everythingKept(sql)).toStrictEqual(before)
    expect(await caller.names()).toStrictEqual([])
  })

  it('takes just the texts that follow the rule, and gives them back letter for letter', async () => {
    const unit = fc.oneof(
      {
        weight: 5,
        arbitrary: fc.constantFrom('a', ' ', 'é', cactus, 'e\u0301', '\u200d', '\ufffd', '"', '\\', '\ufeff'),
      },
      { weight: 1, arbitrary: fc.constantFrom('\u0000', '\t', '\n', '\u007f', '\u009f', '\ud83c', '\udf35') },
      { weight: 1, arbitrary: fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }) },
    )
    const text = fc.oneof(fc.array(unit, { maxLength: 12 }), fc.array(unit, { minLength: 250, maxLength: 260 }))
    const caller = await newCaller()
    await fc.assert(
      fc.asyncProperty(text, async (units) => {
        const sent = units.join('')
        const trimmed = sent.trim()
        const isGood = trimmed.isWellFormed() && !/\p{Cc}/u.test(trimmed) && /^.{1,255}$/su.test(trimmed)
        const response = await caller.send('/plants', { json: { name: sent, tag: sent } })
        if (!isGood) {
          await expectError(response, 'plants', 400)
          return
        }
        expect(await response.json()).toStrictEqual({ name: trimmed, tag: trimmed })
        const kept = await caller.send(response.headers.get('location') ?? '')
        expect(await kept.json()).toStrictEqual({ name: trimmed, tag: trimmed })
        const found = await caller.names(`?limit=1&${new URLSearchParams({ tag: trimmed })}`)
        expect(found).toStrictEqual([trimmed])
      }),
      { numRuns: 100 },
    )
  })

  it('takes just those numbers for ids that are whole and safe', async () => {
    const number = fc.oneof(
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.maxSafeInteger(),
      fc.integer(),
      fc.integer({ min: -3, max: 3 }).map((step) => highest + step),
      fc.integer({ min: -3, max: 3 }).map((step) => -highest + step),
    )
    const caller = await newCaller()
    await fc.assert(
      fc.asyncProperty(number, async (id) => {
        await sql.run('DELETE FROM plants WHERE account = ?', caller.account)
        const response = await caller.post(`{"name": "a", "id": ${id}}`)
        if (Number.isSafeInteger(id)) {
          expect(response.headers.get('location')).toBe(`/plants/${id}`)
          expect(await sql.run('SELECT id FROM plants WHERE account = ?', caller.account)).toStrictEqual([
            { id: id + 0 },
          ])
        } else {
          await expectError(response, 'plants', 400)
        }
      }),
      { numRuns: 100 },
    )
  })

  it('assigns the highest id and one more, at least 1', async () => {
    const caller = await newCaller()
    const add = async (body: unknown) => (await caller.send('/plants', { json: body })).headers.get('location')
    expect(await add({ name: 'a', id: -5 })).toBe('/plants/-5')
    expect(await add({ name: 'b' })).toBe('/plants/1')
    expect(await add({ name: 'c', id: 40 })).toBe('/plants/40')
    expect(await add({ name: 'd', id: 7 })).toBe('/plants/7')
    expect(await add({ name: 'e' })).toBe('/plants/41')
    expect((await caller.send('/plants/41', { method: 'DELETE' })).status).toBe(204)
    expect((await caller.send('/plants/40', { method: 'DELETE' })).status).toBe(204)
    expect(await add({ name: 'f' })).toBe('/plants/8')
    expect(await caller.names()).toStrictEqual(['a', 'b', 'd', 'f'])
  })

  it('assigns 1 where the highest id is 0', async () => {
    const caller = await newCaller()
    await caller.post('{"name": "a", "id": 0}')
    expect((await caller.post('{"name": "b"}')).headers.get('location')).toBe('/plants/1')
  })

  it('refuses a taken id with 409, whatever else is sent, and leaves the plant that has it', async () => {
    const caller = await newCaller()
    await caller.post('{"name": "first", "id": 7, "tag": "kept"}')
    await caller.post('{"name": "zero", "id": 0}')
    const before = await everythingKept(sql)
    for (const text of [
      '{"name": "second", "id": 7}',
      '{"name": "first", "id": 7, "tag": "kept"}',
      '{"name": "x", "id": 7.0}',
      '{"name": "x", "id": -0}',
    ]) {
      const response = await caller.post(text)
      const { message } = await expectError(response, 'plants', 409)
      expect(message).toMatch(/\bid [70]\b/)
      expect(response.headers.get('location')).toBeNull()
    }
    expect(await everythingKept(sql)).toStrictEqual(before)
    expect(await (await caller.send('/plants')).json()).toStrictEqual([
      { name: 'zero' },
      { name: 'first', tag: 'kept' },
    ])
  })

  it('refuses with 409 when no id is left to assign, and still takes one that is sent', async () => {
    const caller = await newCaller()
    expect((await caller.send('/plants', { json: { name: 'last', id: highest } })).status).toBe(200)
    const before = await everythingKept(sql)
    await expectError(await caller.post('{"name": "one more"}'), 'plants', 409)
    expect(await everythingKept(sql)).toStrictEqual(before)
    expect((await caller.send('/plants', { json: { name: 'below', id: highest - 1 } })).status).toBe(200)
    await caller.send(`/plants/${highest}`, { method: 'DELETE' })
    const response = await caller.post('{"name": "the last after all"}')
    expect(response.headers.get('location')).toBe(`/plants/${highest}`)
    expect(await caller.names()).toStrictEqual(['below', 'the last after all'])
  })

  it('counts ids for each account alone', async () => {
    const [one, other] = await Promise.all([newCaller(), newCaller()])
    expect((await one.post('{"name": "mine", "id": 7}')).status).toBe(200)
    expect((await other.post('{"name": "mine too", "id": 7}')).status).toBe(200)
    expect((await other.post('{"name": "next"}')).headers.get('location')).toBe('/plants/8')
    expect(await one.names()).toStrictEqual(['mine'])
    expect(await other.names()).toStrictEqual(['mine too', 'next'])
  })

  it('failure mode 29: gives each of many at once its own id, and one of many for the same id', async () => {
    const caller = await newCaller()
    const names = Array.from({ length: 40 }, (_, index) => `plant ${index}`)
    const added = await Promise.all(names.map((name) => caller.send('/plants', { json: { name } })))
    const ids = added.map((response) => Number(response.headers.get('location')?.slice('/plants/'.length)))
    expect(ids.toSorted((a, b) => a - b)).toStrictEqual(names.map((_, index) => index + 1))
    const wanted = await Promise.all(names.map((name) => caller.send('/plants', { json: { name, id: 99 } })))
    const counts = wanted.map(({ status }) => status).toSorted((a, b) => a - b)
    expect(counts).toStrictEqual([200, ...Array.from({ length: 39 }, () => 409)])
    const kept = await caller.names()
    expect(kept).toHaveLength(41)
    expect(new Set(kept.slice(0, 40))).toStrictEqual(new Set(names))
  })
})

describe('GET and DELETE /plants/{id}', () => {
  it('gives one plant, removes it once, and leaves the others', async () => {
    const caller = await newCaller()
    await plantInBulk(caller, [
      { id: -3, name: 'a' },
      { id: 7, name: 'b', tag: 'aroid' },
      { id: 8, name: 'c' },
    ])
    expect(await (await caller.send('/plants/7')).text()).toBe('{"name":"b","tag":"aroid"}')
    expect(await (await caller.send('/plants/-3')).text()).toBe('{"name":"a"}')
    const removed = await caller.send('/plants/7', { method: 'DELETE' })
    expect({ status: removed.status, text: await removed.text() }).toStrictEqual({ status: 204, text: '' })
    expect(removed.headers.get('content-type')).toBeNull()
    await expectError(await caller.send('/plants/7', { method: 'DELETE' }), 'plants', 404)
    await expectError(await caller.send('/plants/7'), 'plants', 404)
    expect(await caller.names()).toStrictEqual(['a', 'c'])
    expect((await caller.post('{"name": "again", "id": 7}')).status).toBe(200)
  })

  it('takes the DELETE of a client that names a content type although it sends no body', async () => {
    const caller = await newCaller()
    await caller.post('{"name": "a", "id": 7}')
    const headers = { 'content-type': 'application/json' }
    const removed = await caller.send('/plants/7', { method: 'DELETE', headers })
    expect({ status: removed.status, text: await removed.text() }).toStrictEqual({ status: 204, text: '' })
    await expectError(await caller.send('/plants/7', { method: 'DELETE', headers }), 'plants', 404)
  })

  it.for([
    'x',
    '7x',
    '1.5',
    '1e3',
    '0x7',
    '+7',
    '--7',
    '%20',
    '7%20',
    '%00',
    "7'%20OR%20'1'='1",
    '9007199254740992',
    '9007199254740993',
    '-9007199254740992',
    '99999999999999999999999',
    '٧',
  ])('refuses /plants/%s with 400', async (path) => {
    const caller = await newCaller()
    await plantInBulk(caller, [{ id: 7, name: 'a' }])
    await expectError(await caller.send(`/plants/${path}`), 'plants', 400)
    await expectError(await caller.send(`/plants/${path}`, { method: 'DELETE' }), 'plants', 400)
    expect(await caller.names()).toStrictEqual(['a'])
  })

  it("answers for another account's plant exactly as for one that is not there", async () => {
    const [owner, stranger] = await Promise.all([newCaller(), newCaller()])
    await owner.post('{"name": "CANARY", "id": 7}')
    const before = await everythingKept(sql)
    for (const method of ['GET', 'DELETE']) {
      const foreign = await expectError(await stranger.send('/plants/7', { method }), 'plants', 404)
      const absent = await expectError(await stranger.send('/plants/8', { method }), 'plants', 404)
      expect(foreign.message).toBe(absent.message)
      expect(foreign.everything).not.toContain('CANARY')
    }
    expect(await everythingKept(sql)).toStrictEqual(before)
    expect(await (await owner.send('/plants/7')).json()).toStrictEqual({ name: 'CANARY' })
  })
})

describe('GET /plants', () => {
  it('is an empty array where nothing grows', async () => {
    const response = await (await newCaller()).send('/plants')
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(response.headers.get('link')).toBeNull()
    expect(await response.text()).toBe('[]')
  })

  it('is ordered by id and has of each plant its name and tag alone', async () => {
    const caller = await newCaller()
    for (const text of [
      '{"name": "c", "id": 10, "tag": "x"}',
      '{"name": "a", "id": -9007199254740991}',
      '{"name": "b", "id": 9}',
      '{"name": "d", "id": 9007199254740991}',
    ]) {
      expect((await caller.post(text)).status).toBe(200)
    }
    const response = await caller.send('/plants')
    expect(await response.text()).toBe('[{"name":"a"},{"name":"b"},{"name":"c","tag":"x"},{"name":"d"}]')
    expect(response.headers.get('link')).toBeNull()
    const head = await caller.send('/plants', { method: 'HEAD' })
    expect({ status: head.status, text: await head.text() }).toStrictEqual({ status: 200, text: '' })
  })

  it.for([
    'limit=0',
    'limit=-1',
    'limit=-0',
    'limit=1.5',
    'limit=1.0',
    'limit=',
    'limit',
    'limit=two',
    'limit=1e1',
    'limit=0x10',
    'limit=2147483648',
    'limit=9007199254740993',
    'limit=99999999999999999999',
    'limit=Infinity',
    'limit=NaN',
    'limit=null',
    'limit=true',
    'limit=%202',
    'limit=2%20',
    'limit=+2',
    'limit=2,3',
    'limit=2;',
    'limit=2&limit=2',
    'limit=2&limit=',
    'limit=٢',
    "limit=2'%20OR%201=1",
  ])('refuses ?%s with 400', async (query) => {
    const caller = await newCaller()
    const { message } = await expectError(await caller.send(`/plants?${query}`), 'plants', 400)
    expect(message).toContain('"limit"')
  })

  it.for([
    ['limit=1', ['a'], true],
    ['limit=2', ['a', 'b'], true],
    ['limit=3', ['a', 'b', 'c'], false],
    ['limit=4', ['a', 'b', 'c'], false],
    ['limit=2147483647', ['a', 'b', 'c'], false],
    ['limit=002', ['a', 'b'], true],
    ['limit=%32', ['a', 'b'], true],
    ['offset=2&Limit=1&q=a', ['a', 'b', 'c'], false],
    ['tag=x', ['a', 'c'], false],
    ['tag=%20x%20', ['a', 'c'], false],
    ['tag=X', [], false],
    ['tag=none', [], false],
    ['tag=x&limit=1', ['a'], true],
    ['tag=x&limit=2', ['a', 'c'], false],
    ["tag='%20OR%20'1'='1", [], false],
  ] as const)('answers ?%s', async ([query, names, hasMore]) => {
    const caller = await newCaller()
    await plantInBulk(caller, [
      { id: -1, name: 'a', tag: 'x' },
      { id: 5, name: 'b' },
      { id: 6, name: 'c', tag: 'x' },
    ])
    const response = await caller.send(`/plants?${query}`)
    const plants = await readPlants(response)
    expect({ status: response.status, names: plants.map(({ name }) => name) }).toStrictEqual({ status: 200, names })
    expect(nextPage(response) !== undefined).toBe(hasMore)
  })

  it.for(['tag=', 'tag=%20', 'tag=x&tag=x', 'tag=%00', `tag=${'t'.repeat(256)}`])(
    'refuses ?%s with 400',
    async (query) => {
      const { message } = await expectError(await (await newCaller()).send(`/plants?${query}`), 'plants', 400)
      expect(message).toContain('"tag"')
    },
  )

  it.for([
    '',
    'x',
    '!',
    '5',
    '1:5',
    ...[
      '1',
      '1:',
      ':5',
      'a:b',
      '1:1.5',
      '1:5:',
      '-1:5',
      '1:+5',
      '1:05',
      '1:-0',
      '1: 5',
      '1:99999999999999999',
      '9007199254740992:1',
    ].map((text) => Buffer.from(text).toString('base64url')),
    `${writeCursor({ account: 1, id: 5 })}!`,
    `${writeCursor({ account: 1, id: 5 })}=`,
    ` ${writeCursor({ account: 1, id: 5 })}`,
    `${writeCursor({ account: 1, id: 5 })}&after=${writeCursor({ account: 1, id: 6 })}`,
  ])('refuses the cursor %j with 400: it is none that it wrote', async (cursor) => {
    const path = `/plants?limit=2&after=${cursor.includes('&') ? cursor : encodeURIComponent(cursor)}`
    const { message } = await expectError(await (await newCaller()).send(path), 'plants', 400)
    expect(message).toContain('"after"')
  })

  it('shows nobody more by a cursor that another account was given', async () => {
    const [owner, stranger] = await Promise.all([newCaller(), newCaller()])
    const rows = Array.from({ length: 5 }, (_, index) => ({ id: index, name: `owner ${index}` }))
    await plantInBulk(owner, rows)
    await plantInBulk(stranger, [
      { id: 0, name: 'stranger 0' },
      { id: 4, name: 'stranger 4' },
    ])
    const next = nextPage(await owner.send('/plants?limit=2')) ?? ''
    // A place among another account's plants is past all of one's own.
    expect(await (await stranger.send(next)).json()).toStrictEqual([])
  })

  it('keeps limit and tag in the address of the next page, whatever characters the tag has', async () => {
    const caller = await newCaller()
    const tag = `a&limit=1#>; "${cactus}+%`
    await plantInBulk(caller, [
      ...Array.from({ length: 5 }, (_, index) => ({ id: index, name: `tagged ${index}`, tag })),
      { id: 9, name: 'other', tag: 'a' },
    ])
    const pages = await readPages(caller, `/plants?limit=2&tag=${encodeURIComponent(tag)}`)
    expect(pages.map((page) => page.length)).toStrictEqual([2, 2, 1])
    expect(pages.flat().map(({ name }) => name)).toStrictEqual(rowNames(5, 'tagged'))
  })

  it('gives through all pages every plant exactly once, in order, while others are planted', async () => {
    const rows = fc.uniqueArray(
      fc.record({
        id: fc.oneof(fc.integer({ min: -20, max: 20 }), fc.maxSafeInteger()),
        tag: fc.constantFrom('x', 'y', undefined),
      }),
      { selector: ({ id }) => id, maxLength: 25 },
    )
    const query = fc.record({ limit: fc.integer({ min: 1, max: 9 }), tag: fc.constantFrom('x', undefined) })
    const [caller, neighbour] = await Promise.all([newCaller(), newCaller()])
    await fc.assert(
      fc.asyncProperty(
        rows,
        query,
        fc.infiniteStream(fc.integer({ min: -25, max: 25 })),
        async (first, { limit, tag }, ids) => {
          await sql.run('DELETE FROM plants WHERE account IN (?, ?)', caller.account, neighbour.account)
          const toRow = (row: { id: number; tag: string | undefined }): Row => ({
            id: row.id,
            name: String(row.id),
            ...(row.tag === undefined ? {} : { tag: row.tag }),
          })
          await plantInBulk(caller, first.map(toRow))
          const taken = new Set(first.map(({ id }) => id))
          const filter = tag === undefined ? '' : `&tag=${tag}`
          const pages = await readPages(caller, `/plants?limit=${limit}${filter}`, async () => {
            const id = ids.next().value ?? 0
            const statuses = await Promise.all(
              [caller, neighbour].map(async (who) => {
                const name = who === caller ? `new ${id}` : 'CANARY'
                return (await who.send('/plants', { json: { id, name, tag: 'x' } })).status
              }),
            )
            expect(statuses[0]).toBe(taken.has(id) ? 409 : 200)
            taken.add(id)
          })
          for (const page of pages.slice(0, -1)) expect(page).toHaveLength(limit)
          const listed = pages.flat().map(({ name }) => name)
          const expected = first
            .filter((row) => tag === undefined || row.tag === tag)
            .map(({ id }) => id)
            .toSorted((a, b) => a - b)
          expect(listed.filter((name) => !name.startsWith('new '))).toStrictEqual(expected.map(String))
          const order = listed.map((name) => Number(name.replace('new ', '')))
          expect(order).toStrictEqual([...new Set(order)].toSorted((a, b) => a - b))
        },
      ),
      { numRuns: 15 },
    )
  })
})

function rowNames(count: number, prefix: string): readonly string[] {
  return Array.from({ length: count }, (_, index) => `${prefix} ${index}`)
}

const manyNames = rowNames(2500, 'plant')
const manyRows = manyNames.map((name, id) => ({ id, name }))

describe('a long list', () => {
  it.for([
    [1000, 'whole'],
    [1001, 'streamed'],
    [3500, 'streamed'],
  ] as const)('of %i plants is complete, in order and valid JSON, and is sent %s', async ([count, how]) => {
    const caller = await newCaller()
    const rows = rowNames(count, `"${cactus}\\`).map((name, id) => ({ id, name, ...(id % 2 ? { tag: 'odd' } : {}) }))
    await plantInBulk(caller, rows)
    const response = await caller.send('/plants')
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(response.headers.get('link')).toBeNull()
    const isWhole = how === 'whole'
    expect(response.headers.has('content-length')).toBe(isWhole)
    expect(response.headers.get('transfer-encoding')).toBe(isWhole ? null : 'chunked')
    const expected = rows.map(({ id, ...plant }) => plant)
    expect(await response.json()).toStrictEqual(expected)
    const odd = await caller.send('/plants?tag=odd')
    expect(await odd.json()).toStrictEqual(expected.filter(({ tag }) => tag === 'odd'))
  })

  it('can be entered by a cursor, and asked for its headers alone', async () => {
    const caller = await newCaller()
    await plantInBulk(caller, manyRows)
    const after = writeCursor({ account: caller.account, id: 499 })
    expect(await caller.names(`?after=${after}`)).toStrictEqual(manyNames.slice(500))
    const head = await caller.send('/plants', { method: 'HEAD' })
    expect({ status: head.status, text: await head.text() }).toStrictEqual({ status: 200, text: '' })
    const pages = await readPages(caller, '/plants?limit=1200')
    expect(pages.map((page) => page.length)).toStrictEqual([1200, 1200, 100])
  })

  it('shows one moment: what is planted meanwhile is not in it', async () => {
    const caller = await newCaller()
    await plantInBulk(caller, manyRows)
    const stores = await storesForThisTest(service.dataDirectory)
    const names: string[] = []
    for await (const page of stores.plants.listAll(caller.account, {})) {
      names.push(...namesOf(page))
      expect((await caller.post(`{"name": "late", "id": ${5000 + names.length}}`)).status).toBe(200)
      expect((await caller.send(`/plants/${names.length + 10}`, { method: 'DELETE' })).status).toBeLessThan(500)
    }
    expect(names).toStrictEqual(manyNames)
  })

  it('of a reader who leaves half-way does not keep its snapshot', async () => {
    // 20 MB, far more than the sockets' buffers hold: the service has to wait for the reader.
    const caller = await newCaller()
    const text = cactus.repeat(255)
    await plantInBulk(
      caller,
      Array.from({ length: 10_000 }, (_, id) => ({ id, name: text, tag: text })),
    )
    const other = await newCaller(['plants:write'])
    await eventually(async () => expect(await sql.hasReader()).toBe(false))

    const { hostname, port } = new URL(service.url)
    const key = await service.makeKey(`account ${callers - 1}`, ['plants:read'])
    const socket = connect(Number(port), hostname)
    onTestFinished(() => {
      socket.destroy()
    })
    socket.write(`GET /plants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n\r\n`)
    const [first] = await once(socket, 'data')
    expect(String(first)).toMatch(/^HTTP\/1\.1 200 /)
    socket.pause()
    expect((await other.post('{"name": "newer"}')).status).toBe(200)
    expect(await sql.hasReader()).toBe(true)
    socket.destroy()
    await eventually(async () => expect(await sql.hasReader()).toBe(false))
  })
})

describe('accounts', () => {
  const account = fc.nat({ max: 2 })
  const id = fc.integer({ min: -2, max: 5 })
  const tag = fc.constantFrom('x', 'y', undefined)
  const command = fc.oneof(
    fc.record({ kind: fc.constant('create'), account, id: fc.option(id, { nil: undefined }), tag }),
    fc.record({ kind: fc.constant('get'), account, id }),
    fc.record({ kind: fc.constant('delete'), account, id }),
    fc.record({ kind: fc.constant('list'), account, tag, limit: fc.constantFrom(1, 2, 5, undefined) }),
  )
  type Garden = Map<number, Plant>

  function sorted(garden: Garden): readonly Plant[] {
    return [...garden].toSorted(([a], [b]) => a - b).map(([, plant]) => plant)
  }

  it('failure mode 24: never see or touch each other’s plants, whatever is called in whatever order', async () => {
    const people = await Promise.all([newCaller(), newCaller(), newCaller()])
    let planted = 0
    await fc.assert(
      fc.asyncProperty(fc.array(command, { maxLength: 30, size: 'max' }), async (commands) => {
        for (const { account } of people) await sql.run('DELETE FROM plants WHERE account = ?', account)
        const gardens: readonly Garden[] = people.map(() => new Map())
        for (const call of commands) {
          const caller = people[call.account]
          const garden = gardens[call.account]
          if (!caller || !garden) throw new Error('no such account')
          if (call.kind === 'create') {
            const plant = { name: `${call.account}/${++planted}`, ...(call.tag === undefined ? {} : { tag: call.tag }) }
            const body = { ...plant, ...(call.id === undefined ? {} : { id: call.id }) }
            const response = await caller.send('/plants', { json: body })
            const given = call.id ?? Math.max(0, ...garden.keys()) + 1
            if (garden.has(given)) {
              await expectError(response, 'plants', 409)
            } else {
              expect(await response.json()).toStrictEqual(plant)
              expect(response.headers.get('location')).toBe(`/plants/${given}`)
              garden.set(given, plant)
            }
          } else if (call.kind === 'list') {
            const query = new URLSearchParams({
              ...(call.limit === undefined ? {} : { limit: String(call.limit) }),
              ...(call.tag === undefined ? {} : { tag: call.tag }),
            })
            const response = await caller.send(`/plants?${query}`)
            const fitting = sorted(garden).filter((plant) => call.tag === undefined || plant.tag === call.tag)
            expect(await response.json()).toStrictEqual(fitting.slice(0, call.limit))
            expect(response.headers.has('link')).toBe(fitting.length > (call.limit ?? Number.POSITIVE_INFINITY))
          } else {
            const response = await caller.send(`/plants/${call.id}`, { method: call.kind === 'get' ? 'GET' : 'DELETE' })
            const plant = garden.get(call.id)
            if (!plant) {
              await expectError(response, 'plants', 404)
            } else if (call.kind === 'get') {
              expect(await response.json()).toStrictEqual(plant)
            } else {
              expect(response.status).toBe(204)
              garden.delete(call.id)
            }
          }
        }
        for (const [index, caller] of people.entries()) {
          expect(await (await caller.send('/plants')).json()).toStrictEqual(sorted(gardens[index] ?? new Map()))
        }
      }),
      { numRuns: 20 },
    )
  })
})

describe('what is kept', () => {
  it('has a plant in it by the time that the reply is here', async () => {
    const caller = await newCaller()
    const rows = () => sql.run('SELECT id, name, tag FROM plants WHERE account = ?', caller.account)
    await caller.post('{"name": " a ", "id": 9007199254740991, "tag": "x"}')
    expect(await rows()).toStrictEqual([{ id: highest, name: 'a', tag: 'x' }])
    await caller.send(`/plants/${highest}`, { method: 'DELETE' })
    expect(await rows()).toStrictEqual([])
  })
})
