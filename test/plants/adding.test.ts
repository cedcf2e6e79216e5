import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { anyCharacter } from '../support/any-character.ts'
import { expectError } from '../support/http.ts'
import { cactus, highest, newCaller, plantServiceForThisFile, sql } from '../support/plant-callers.ts'
import { everythingKept } from '../support/test-sql.ts'

plantServiceForThisFile()

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
      what: 'the highest possible id',
      send: '{"name": "a", "id": 9007199254740991}',
      reply: { name: 'a' },
      location: '/plants/9007199254740991',
    },
    {
      what: 'the lowest possible id',
      send: '{"name": "a", "id": -9007199254740991}',
      reply: { name: 'a' },
      location: '/plants/-9007199254740991',
    },
    ...['1.0', '1e0', '10e-1', '0.1e1', '1.000000000000000000000000000'].map((literal) => ({
      what: `the id ${literal}, which is 1`,
      send: `{"name": "a", "id": ${literal}}`,
      reply: { name: 'a' },
      location: '/plants/1',
    })),
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
      what: 'texts with a meaning in other languages, unchanged',
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
  ])('accepts $what', async ({ send, reply, location }) => {
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
    { what: 'an id beyond the range of numbers', send: '{"name": "a", "id": 1e400}', field: 'id' },
    { what: 'a list', send: '[{"name": "CANARY"}]', field: 'JSON object' },
    { what: 'a text', send: '"CANARY"', field: 'JSON object' },
    { what: 'a number', send: '7', field: 'JSON object' },
    { what: 'null', send: 'null', field: 'JSON object' },
    { what: 'an empty object', send: '{}', field: 'name' },
  ])('refuses $what with a 400 that names the fault, and writes nothing', async ({ send, field }) => {
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

  it('accepts exactly the texts that follow the rule, and returns them trimmed', async () => {
    const unit = fc.oneof(
      {
        weight: 5,
        arbitrary: fc.constantFrom('a', ' ', 'é', cactus, 'e\u0301', '\u200d', '\ufffd', '"', '\\', '\ufeff'),
      },
      { weight: 1, arbitrary: fc.constantFrom('\u0000', '\t', '\n', '\u007f', '\u009f', '\ud83c', '\udf35') },
      { weight: 1, arbitrary: fc.string({ unit: anyCharacter, minLength: 1, maxLength: 1 }) },
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

  it.for([
    '1.0000000000000000001',
    '0.99999999999999999999',
    '9007199254740991.4',
    '9007199254740990.00000000000000000001',
    '-9007199254740991.4',
    '1e-400',
    '10000000000000000000001e-22',
    '9007199254740991.5',
    '9007199254740992',
    '9007199254740993',
    '1e400',
  ])('refuses the id %s instead of rounding it', async (literal) => {
    const caller = await newCaller()
    const before = await everythingKept(sql)
    const { message } = await expectError(await caller.post(`{"name": "a", "id": ${literal}}`), 'plants', 400)
    expect(message).toMatch(/whole number/)
    expect(await everythingKept(sql)).toStrictEqual(before)
  })

  it('accepts exactly the safe whole numbers as ids', async () => {
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

  it('assigns one more than the highest id, at least 1', async () => {
    const caller = await newCaller()
    const add = async (body: unknown) => (await caller.send('/plants', { json: body })).headers.get('location')
    expect(await add({ name: 'a', id: -5 })).toBe('/plants/-5')
    expect(await add({ name: 'b' })).toBe('/plants/1')
    expect((await caller.send('/plants/1', { method: 'DELETE' })).status).toBe(204)
    expect(await add({ name: 'z', id: 0 })).toBe('/plants/0')
    expect(await add({ name: 'b' })).toBe('/plants/1')
    expect(await add({ name: 'c', id: 40 })).toBe('/plants/40')
    expect(await add({ name: 'd', id: 7 })).toBe('/plants/7')
    expect(await add({ name: 'e' })).toBe('/plants/41')
    expect((await caller.send('/plants/41', { method: 'DELETE' })).status).toBe(204)
    expect((await caller.send('/plants/40', { method: 'DELETE' })).status).toBe(204)
    expect(await add({ name: 'f' })).toBe('/plants/8')
    expect(await caller.names()).toStrictEqual(['a', 'z', 'b', 'd', 'f'])
  })

  it('refuses a taken id with 409, whatever else is sent, and does not change the plant that has it', async () => {
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

  it('refuses with 409 when no id is left to assign, and still accepts a sent id', async () => {
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

  it('gives each of 40 concurrent plants its own id, and adds one of 40 plants with the same id', async () => {
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

describe('the database', () => {
  it('has a plant before its reply arrives', async () => {
    const caller = await newCaller()
    const rows = () => sql.run('SELECT id, name, tag FROM plants WHERE account = ?', caller.account)
    await caller.post('{"name": " a ", "id": 9007199254740991, "tag": "x"}')
    expect(await rows()).toStrictEqual([{ id: highest, name: 'a', tag: 'x' }])
    await caller.send(`/plants/${highest}`, { method: 'DELETE' })
    expect(await rows()).toStrictEqual([])
  })
})
