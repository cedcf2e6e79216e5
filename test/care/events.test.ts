import { describe, expect, it } from 'vitest'
import { advanceTo, ask, clockForThisFile, day, keeper, nextOf, now } from '../support/care.ts'
import { eventually } from '../support/eventually.ts'
import { expectError } from '../support/http.ts'
import { type Caller, plantServiceForThisFile, sql } from '../support/plant-callers.ts'

clockForThisFile()
plantServiceForThisFile()

const log = (caller: Caller, event: object, headers?: object) => ask(caller, '/plants/7/events', 'POST', event, headers)
const eventsOf = async (caller: Caller, query = '') => (await ask(caller, `/plants/7/events${query}`)).body.data
const dueOf = async (caller: Caller) => (await ask(caller, '/plants/7/care')).body.data[0].due
const heldBy = async ({ account }: Caller) =>
  (await sql.run<{ events: number }>('SELECT events FROM holdings WHERE account = ?', account))[0]?.events ?? 0

describe('an event', () => {
  it('is added with what it has, found at its address, and deleted', async () => {
    const caller = await keeper()
    const sent = { kind: 'moisture', at: 1_764_000_000, note: ' one\n\ttwo ', value: 41.5, unit: ' % ' }
    const added = await log(caller, sent)
    const stored = { ...sent, id: added.body.id, plant: 7, note: 'one\n\ttwo', unit: '%' }
    expect(added).toMatchObject({ status: 201, body: stored })
    const address = added.headers.get('location') ?? ''
    expect(address).toBe(`/plants/7/events/${added.body.id}`)
    expect((await ask(caller, address)).body).toStrictEqual(stored)
    const plain = await log(caller, { kind: 'water' })
    expect(plain.body).toStrictEqual({ id: plain.body.id, plant: 7, kind: 'water', at: now })
    // The fields have one order in all replies.
    expect(JSON.stringify(await eventsOf(caller))).toBe(JSON.stringify([plain.body, (await ask(caller, address)).body]))
    expect((await ask(caller, address, 'DELETE')).status).toBe(204)
    expect((await ask(caller, address)).status).toBe(404)
    expect((await expectError(await caller.send(address, { method: 'DELETE' }), 'plants', 404)).message).toContain(
      'The plant has no event with this id',
    )
    expect(await eventsOf(caller)).toStrictEqual([plain.body])
    expect(await heldBy(caller)).toBe(1)
  })

  it.each(['%00', '%F0%9F%8C%B5', "'", 'x'.repeat(100)])('is unknown by the id %s', async (id) => {
    const caller = await keeper()
    await log(caller, { kind: 'water' })
    for (const method of ['GET', 'DELETE']) {
      await expectError(await caller.send(`/plants/7/events/${id}`, { method }), 'plants', 404)
    }
    expect(await heldBy(caller)).toBe(1)
  })

  it.each([0, -1.5, 1e300, 5e-324])('keeps the value %d', async (value) => {
    const caller = await keeper()
    await log(caller, { kind: 'measure', value })
    expect((await eventsOf(caller))[0].value).toBe(value)
  })

  it('answers a due date of its kind; the later time counts, and not the later reply', async () => {
    const caller = await keeper()
    await ask(caller, '/plants/7/care/water', 'PUT', { every_days: 7 })
    expect(await dueOf(caller)).toBe('2026-11-29')
    await log(caller, { kind: 'feed' })
    expect(await dueOf(caller)).toBe('2026-11-29')
    const newest = await log(caller, { kind: 'water', at: now - day })
    expect(await dueOf(caller)).toBe('2026-12-05')
    await log(caller, { kind: 'water', at: now - 3 * day })
    expect(await dueOf(caller)).toBe('2026-12-05')
    await ask(caller, `/plants/7/events/${newest.body.id}`, 'DELETE')
    expect(await dueOf(caller)).toBe('2026-12-03')
    expect((await ask(caller, '/plants/7/events?kind=water', 'DELETE')).body).toEqual({ deleted: 1 })
    expect(await dueOf(caller)).toBe('2026-11-29')
  })

  it('is added once for an idempotency key, also when the clock goes on', async () => {
    const caller = await keeper()
    const key = { 'idempotency-key': 'one' }
    const first = await log(caller, { kind: 'water' }, key)
    advanceTo(0.5)
    const again = await log(caller, { kind: 'water' }, key)
    expect(again).toMatchObject({ status: 201, body: first.body })
    expect(again.headers.get('location')).toBe(first.headers.get('location'))
    expect([first, again].map(({ headers }) => headers.get('idempotency-replayed'))).toEqual([null, 'true'])
    expect((await log(caller, { kind: 'feed' }, key)).status).toBe(422)
    expect(await eventsOf(caller)).toHaveLength(1)
  })

  const late = 253_402_300_799
  it.each<[body: unknown, message: string]>([
    [{}, 'The field "kind" is missing.'],
    [{ kind: 'Water' }, 'The field "kind" is not valid: send a word such as "water"'],
    [{ kind: 7 }, '"kind" is not valid'],
    [{ kind: 'water', at: late }, 'The field "at" is more than a day in the future'],
    [{ kind: 'water', at: now + day + 1 }, '"at" is more than a day in the future'],
    [{ kind: 'water', at: -1 }, '"at" is not valid: send Unix seconds'],
    [{ kind: 'water', at: 1.5 }, '"at" is not valid'],
    [{ kind: 'water', at: '2026-11-29' }, '"at" is not valid'],
    [{ kind: 'water', note: ' ' }, 'The field "note" is blank; send 1 to 2,000 characters.'],
    [{ kind: 'water', note: 'x'.repeat(2001) }, '"note" is longer than 2000 characters'],
    [{ kind: 'water', note: 'a\u0000b' }, '"note" has control characters'],
    [{ kind: 'water', note: '\ud800' }, '"note" has half of a surrogate pair'],
    [{ kind: 'water', value: '41' }, '"value" is not valid: send a number, not in quotes.'],
    [{ kind: 'water', unit: 5 }, '"unit" is not valid: send a text such as "%".'],
    [{ kind: 'water', unit: 'x'.repeat(33) }, '"unit" is longer than 32 characters'],
    [{ kind: 'water', unit: 'a\nb' }, '"unit" has control characters'],
    [[{ kind: 'water' }], 'The body must be a JSON object.'],
  ])('%j is a 400', async (json, said) => {
    const caller = await keeper()
    const { message } = await expectError(await caller.send('/plants/7/events', { json }), 'plants', 400)
    expect(message).toContain(said)
    expect(await eventsOf(caller)).toEqual([])
  })
})

describe('the log of a plant', () => {
  it('has pages from the newest event to the oldest, which stay exact while events come and go', async () => {
    const caller = await keeper()
    const items = Array.from({ length: 12 }, (_, index) => ({ plant: 7, kind: 'water', at: now - (index >> 1) * day }))
    const added = (await ask(caller, '/events', 'POST', items)).body.data
    const expected = added.toSorted(
      (one: { at: number; id: string }, other: { at: number; id: string }) =>
        other.at - one.at || (one.id < other.id ? 1 : -1),
    )
    const seen: unknown[] = []
    let path = '/plants/7/events?limit=5'
    while (path !== '') {
      const page = await ask(caller, path)
      seen.push(...page.body.data)
      expect(page.body.has_more).toBe(seen.length < 12)
      path = nextOf(page)
      await log(caller, { kind: 'feed' })
      await ask(caller, `/plants/7/events/${page.body.data.at(-1).id}`, 'DELETE')
    }
    expect(seen).toStrictEqual(expected)
  })

  it('is cut by kind and time; both ends belong to the time, and a day is a day of the account', async () => {
    const caller = await keeper()
    await sql.run("UPDATE accounts SET time_zone = 'Asia/Tokyo' WHERE id = ?", caller.account)
    const midnight = Date.parse('2026-11-25T00:00:00+09:00') / 1000
    const times = [midnight - 1, midnight, midnight + day - 1, midnight + day]
    for (const at of times) await log(caller, { kind: at % 2 === 0 ? 'water' : 'feed', at })
    const at = async (query: string) => (await eventsOf(caller, query)).map((event: { at: number }) => event.at)
    expect(await at('?from=2026-11-25&to=2026-11-25')).toEqual([midnight + day - 1, midnight])
    expect(await at(`?from=${midnight}&to=${midnight}`)).toEqual([midnight])
    expect(await at('?to=2026-11-24')).toEqual([midnight - 1])
    expect(await at('?from=2026-11-26&to=9999-12-31')).toEqual([midnight + day])
    expect(await at('?from=0001-01-01&kind=feed')).toEqual(times.filter((each) => each % 2 === 1).toReversed())
    expect(await at('?kind=prune')).toEqual([])
  })

  it.each([
    ['from=soon', '"from" is neither Unix seconds nor a day'],
    ['to=2026-02-30', '"to" is neither Unix seconds nor a day'],
    ['from=2026-11-02&to=2026-11-01', '"from" is later than "to"'],
    ['from=9999999999999999', '"from" is neither'],
    ['limit=0', 'from 1 to 1000'],
    ['limit=1001', 'from 1 to 1000'],
    ['kind=', '"kind" is not valid'],
    ['kind=a&kind=b', '"kind" is not valid'],
    ['after=x', '"after" is not valid here'],
  ])('%s is a 400', async (query, said) => {
    const caller = await keeper()
    for (const method of /limit|after/.test(query) ? ['GET'] : ['GET', 'DELETE']) {
      const response = await caller.send(`/plants/7/events?${query}`, { method })
      expect((await expectError(response, 'plants', 400)).message).toContain(said)
    }
  })

  it('takes no place of another list', async () => {
    const caller = await keeper()
    await ask(caller, '/events', 'POST', [
      { plant: 7, kind: 'water' },
      { plant: 7, kind: 'feed' },
    ])
    const after = nextOf(await ask(caller, '/plants/7/events?limit=1')).split('after=')[1]
    await expectError(await caller.send(`/care/due?after=${after}`), 'plants', 400)
    await expectError(await caller.send(`/plants?after=${after}`), 'plants', 400)
  })

  it('loses the events that a query selects, in portions, and never all without a query', async () => {
    const caller = await keeper()
    const some = Array.from({ length: 1000 }, (_, index) => ({
      plant: 7,
      kind: index % 2 ? 'feed' : 'water',
      at: index,
    }))
    await ask(caller, '/events', 'POST', some)
    await ask(caller, '/plants/7/care/water', 'PUT', { every_days: 7 })
    const { message } = await expectError(
      await caller.send('/plants/7/events?x=1', { method: 'DELETE' }),
      'plants',
      400,
    )
    expect(message).toContain('The query selects no events')
    expect((await ask(caller, '/plants/7/events?kind=water&to=899', 'DELETE')).body).toEqual({ deleted: 450 })
    expect(await heldBy(caller)).toBe(550)
    expect((await ask(caller, '/plants/7/events?to=999', 'DELETE')).body).toEqual({ deleted: 550 })
    expect(await heldBy(caller)).toBe(0)
    expect(await dueOf(caller)).toBe('2026-11-29')
    expect((await ask(caller, '/plants/7/events?to=999', 'DELETE')).body).toEqual({ deleted: 0 })
  })

  it('is unreachable once the plant is deleted, also for a new plant with its id, and is removed', async () => {
    const caller = await keeper()
    await ask(caller, '/plants/7/care/water', 'PUT', { every_days: 7 })
    await ask(caller, '/events', 'POST', Array(700).fill({ plant: 7, kind: 'water' }))
    expect((await ask(caller, '/plants/7', 'DELETE')).status).toBe(204)
    expect((await ask(caller, '/plants/7/events')).status).toBe(404)
    expect((await ask(caller, '/care/due?within=366d')).body.data).toEqual([])
    await ask(caller, '/plants', 'POST', { name: 'Fern', id: 7 })
    expect(await eventsOf(caller)).toEqual([])
    await log(caller, { kind: 'water' })
    // The service removes them some seconds later.
    await eventually(async () => expect(await heldBy(caller)).toBe(1))
    expect(await sql.run('SELECT log FROM care_logs WHERE plant IS NULL')).toEqual([])
    expect(await eventsOf(caller)).toHaveLength(1)
  })
})

describe('many events at once', () => {
  const plants = [
    { id: 1, name: 'Monstera', tag: 'aroid' },
    { id: 2, name: 'Fern' },
    { id: 3, name: 'Pothos', tag: 'aroid' },
  ]
  const many = (caller: Caller, body: unknown, headers?: object) => ask(caller, '/events', 'POST', body, headers)

  it('name the fields that are ignored, and no others', async () => {
    const caller = await keeper(plants)
    const ignored = async (body: unknown) => (await many(caller, body)).headers.get('x-ignored-params')
    expect(await ignored([{ plant: 1, kind: 'water' }])).toBeNull()
    expect(await ignored([{ plant: 1, kind: 'water', tag: 'aroid' }])).toBe('tag')
    expect(await ignored({ tag: 'aroid', kind: 'water' })).toBeNull()
    expect(await ignored({ tag: 'aroid', kind: 'water', plant: 1 })).toBe('plant')
  })

  it('are added for plants of an array, in its order', async () => {
    const caller = await keeper(plants)
    await ask(caller, '/plants/3/care/water', 'PUT', { every_days: 7 })
    const sent = [
      { plant: 3, kind: 'water', at: now - day },
      { plant: 1, kind: 'moisture', value: 3, unit: 'cb' },
      { plant: 3, kind: 'water', at: now - 2 * day, note: 'late' },
    ]
    const { status, body } = await many(caller, sent)
    expect({ status, ...body }).toMatchObject({ status: 201, object: 'list', has_more: false })
    expect(body.data).toMatchObject([sent[0], { ...sent[1], at: now }, sent[2]])
    expect(new Set(body.data.map(({ id }: { id: string }) => id)).size).toBe(3)
    expect((await ask(caller, '/plants/3/events')).body.data).toStrictEqual([body.data[0], body.data[2]])
    expect((await ask(caller, '/plants/3/care')).body.data[0]).toMatchObject({ last: now - day, due: '2026-12-05' })
    expect(await heldBy(caller)).toBe(3)
  })

  it('are added for all plants with a tag, and once for an idempotency key, also if the tag has other plants later', async () => {
    const caller = await keeper(plants)
    const key = { 'idempotency-key': 'monday' }
    const first = await many(caller, { tag: ' aroid ', kind: 'water', note: 'rain' }, key)
    expect(first.body.data).toMatchObject([
      { plant: 1, kind: 'water', at: now, note: 'rain' },
      { plant: 3, kind: 'water', at: now, note: 'rain' },
    ])
    await ask(caller, '/plants', 'POST', { name: 'Calla', tag: 'aroid' })
    await ask(caller, '/plants/3', 'DELETE')
    const again = await many(caller, { tag: ' aroid ', kind: 'water', note: 'rain' }, key)
    expect(again).toMatchObject({ status: 201, body: first.body })
    expect(again.headers.get('idempotency-replayed')).toBe('true')
    expect((await ask(caller, '/plants/4/events')).body.data).toEqual([])
  })

  it('are 1,000 at most, for an array and for a tag', async () => {
    const rows = Array.from({ length: 1001 }, (_, id) => ({ id, name: 'Moss', tag: id < 1000 ? 'moss' : 'other' }))
    const caller = await keeper(rows)
    expect((await many(caller, { tag: 'moss', kind: 'mist' })).body.data).toHaveLength(1000)
    await sql.run("UPDATE plants SET tag = 'moss' WHERE account = ?", caller.account)
    const { message } = await expectError(
      await caller.send('/events', { json: { tag: 'moss', kind: 'mist' } }),
      'plants',
      400,
    )
    expect(message).toContain('The field "tag" is the tag of more than 1000 plants')
    expect(await heldBy(caller)).toBe(1000)
  })

  it.each<[body: unknown, status: number, message: string]>([
    [[], 400, 'send an array of 1 to 1000 events, or one object with "tag" and "kind"'],
    [Array(1001).fill({ plant: 1, kind: 'water' }), 400, 'send an array of 1 to 1000 events'],
    [
      [
        { plant: 1, kind: 'water' },
        { plant: 4, kind: 'water' },
      ],
      400,
      'The field "[1].plant" is not the id of one of',
    ],
    [
      [
        { plant: 1, kind: 'water' },
        { plant: 1, kind: '' },
      ],
      400,
      'The field "[1].kind" is not valid',
    ],
    [[{ plant: 1, kind: 'water' }, { plant: 1 }], 400, 'The field "[1].kind" is missing'],
    [
      [
        { plant: 1, kind: 'water' },
        { plant: 1, kind: 'a', at: now + 2 * day },
      ],
      400,
      '"[1].at" is more than a day',
    ],
    [[{ plant: 1, kind: 'water', note: '\u0001' }], 400, 'The field "[0].note" has control characters'],
    [[{ plant: '1', kind: 'water' }], 400, 'The field "[0].plant" is not valid'],
    [[{ plant: 1, kind: 'water', note: 5 }], 400, 'The field "[0].note" is not valid: send a text.'],
    [{ tag: 5, kind: 'water' }, 400, 'The field "tag" is not valid: send a text.'],
    [{ kind: 'water' }, 400, 'The field "tag" is missing'],
    [{ tag: 'aroid' }, 400, 'The field "kind" is missing'],
    [{ tag: ' ', kind: 'water' }, 400, 'The field "tag" is blank'],
    [{ tag: 'cactus', kind: 'water' }, 404, 'None of your plants has this tag. GET /plants lists your plants.'],
    ['water', 400, 'send an array of 1 to 1000 events'],
  ])('%j is a refusal, and nothing is written', async (json, status, said) => {
    const caller = await keeper(plants)
    const { message } = await expectError(await caller.send('/events', { json }), 'plants', status)
    expect(message).toContain(said)
    expect(await heldBy(caller)).toBe(0)
  })

  it('are within the limit "events" of the account and the key, or none of them is added', async () => {
    const caller = await keeper(plants)
    await sql.run(`UPDATE accounts SET limits = '{"events":3}' WHERE id = ?`, caller.account)
    const limited = () => ask(caller, '/limits')
    await eventually(async () => {
      const { data } = (await limited()).body
      expect(data).toContainEqual({ limit: 'events', of: 'account', value: 3, used: 0, resets: null })
    })
    expect(
      (
        await many(caller, [
          { plant: 1, kind: 'a' },
          { plant: 2, kind: 'a' },
        ])
      ).status,
    ).toBe(201)
    const refused = await caller.send('/events', { json: { tag: 'aroid', kind: 'water' } })
    expect(refused.headers.get('retry-after')).toBeNull()
    expect((await expectError(refused, 'plants', 429)).message).toContain(
      'The limit "events" of 3 would be passed: the account has 2 events.',
    )
    expect((await ask(caller, '/plants/3/events', 'POST', { kind: 'water' })).status).toBe(201)
    expect((await ask(caller, '/plants/3/events', 'POST', { kind: 'water' })).status).toBe(429)
    expect((await limited()).body.data).toContainEqual(
      expect.objectContaining({ limit: 'events', of: 'account', used: 3 }),
    )
    await ask(caller, '/plants/3/events?kind=water', 'DELETE')
    expect((await ask(caller, '/plants/3/events', 'POST', { kind: 'water' })).status).toBe(201)
  })
})
