import { describe, expect, it } from 'vitest'
import { advanceTo, ask, clockForThisFile, day, keeper, now } from '../support/care.ts'
import { expectError } from '../support/http.ts'
import { newCaller, plantServiceForThisFile, sql } from '../support/plant-callers.ts'

clockForThisFile()
plantServiceForThisFile()

const winter = { from: '11-01', to: '02-28', every_days: 14 }

describe('the care of a plant', () => {
  it('is set, listed by kind, replaced and deleted', async () => {
    const caller = await keeper()
    const water = { kind: 'water', every_days: 7, season: winter, last: null, due: '2026-11-29' }
    const first = await ask(caller, '/plants/7/care/water', 'PUT', { every_days: 7, season: winter })
    expect(first).toMatchObject({ status: 201, body: water })
    expect(first.headers.get('location')).toBe('/plants/7/care/water')
    const feed = { kind: 'feed', every_days: 30, last: null, due: '2026-11-29' }
    expect((await ask(caller, '/plants/7/care/feed', 'PUT', { every_days: 30 })).body).toStrictEqual(feed)
    const listed = await ask(caller, '/plants/7/care')
    expect(listed).toMatchObject({ status: 200, body: { object: 'list', data: [feed, water], has_more: false } })
    const replaced = await ask(caller, '/plants/7/care/water', 'PUT', { every_days: 3 })
    expect(replaced).toMatchObject({ status: 200, body: { kind: 'water', every_days: 3 } })
    expect(replaced.body).not.toHaveProperty('season')
    expect(replaced.headers.get('location')).toBeNull()
    expect((await ask(caller, '/plants/7/care/water', 'DELETE')).status).toBe(204)
    expect((await ask(caller, '/plants/7/care')).body.data).toEqual([feed])
  })

  it('is due on the day of its schedule, and the same schedule on a later day does not move this day', async () => {
    const caller = await keeper()
    await ask(caller, '/plants/7/care/water', 'PUT', { every_days: 7 })
    advanceTo(3)
    const again = await ask(caller, '/plants/7/care/water', 'PUT', { every_days: 7 })
    expect(again).toMatchObject({ status: 200, body: { due: '2026-11-29' } })
    const other = await ask(caller, '/plants/7/care/water', 'PUT', { every_days: 8 })
    expect(other.body).toMatchObject({ due: '2026-12-02' })
  })

  it('of a kind with events is due after the newest of them', async () => {
    const caller = await keeper()
    for (const ago of [2, 1, 3]) {
      await ask(caller, '/plants/7/events', 'POST', { kind: 'water', at: now - ago * day })
    }
    const set = await ask(caller, '/plants/7/care/water', 'PUT', { every_days: 7 })
    expect(set.body).toMatchObject({ last: now - day, due: '2026-12-05' })
  })

  it('is not due in a pause', async () => {
    const caller = await keeper()
    const paused = { every_days: 7, season: { ...winter, every_days: null } }
    expect((await ask(caller, '/plants/7/care/feed', 'PUT', paused)).body.due).toBe('2027-03-01')
    const always = { every_days: 7, season: { from: '01-01', to: '12-31', every_days: null } }
    expect((await ask(caller, '/plants/7/care/feed', 'PUT', always)).body.due).toBeNull()
    expect((await ask(caller, '/care/due?within=366d')).body.data).toEqual([])
  })

  it('is put off by a snooze until the next event, and by another snooze to another day', async () => {
    const caller = await keeper()
    await ask(caller, '/plants/7/care/water', 'PUT', { every_days: 7 })
    const snooze = (days: number) => ask(caller, '/plants/7/care/water/snooze', 'POST', { days })
    expect(await snooze(5)).toMatchObject({ status: 200, body: { due: '2026-12-04', snoozed_until: '2026-12-04' } })
    expect((await snooze(2)).body).toMatchObject({ due: '2026-12-01', snoozed_until: '2026-12-01' })
    await ask(caller, '/plants/7/events', 'POST', { kind: 'feed' })
    expect((await ask(caller, '/plants/7/care')).body.data[0].due).toBe('2026-12-01')
    await ask(caller, '/plants/7/events', 'POST', { kind: 'water' })
    const [left] = (await ask(caller, '/plants/7/care')).body.data
    expect(left).toStrictEqual({ kind: 'water', every_days: 7, last: now, due: '2026-12-06' })
  })

  it('takes 50 kinds, and a change of one of them', async () => {
    const caller = await keeper()
    for (let kind = 0; kind < 50; kind++) {
      expect((await ask(caller, `/plants/7/care/k${kind}`, 'PUT', { every_days: 1 })).status).toBe(201)
    }
    const full = await expectError(
      await caller.send('/plants/7/care/more', { method: 'PUT', json: { every_days: 1 } }),
      'plants',
      409,
    )
    expect(full.message).toContain('50 kinds of care')
    expect((await ask(caller, '/plants/7/care/k0', 'PUT', { every_days: 2 })).status).toBe(200)
  })

  it('is only for the account that owns the plant, and only within the scopes of the key', async () => {
    const [owner, other] = [await keeper(), await newCaller()]
    await sql.insert('grants', [{ owner: owner.account, grantee: other.account, tag: '', created: 0 }])
    await ask(owner, '/plants/7/care/water', 'PUT', { every_days: 7 })
    const asked: readonly [string, string, unknown?][] = [
      ['/plants/7/care', 'GET'],
      ['/plants/7/care/water', 'PUT', { every_days: 7 }],
      ['/plants/7/care/water', 'DELETE'],
      ['/plants/7/care/water/snooze', 'POST', { days: 1 }],
      ['/plants/7/events', 'GET'],
      ['/plants/7/events', 'POST', { kind: 'water' }],
      ['/plants/7/events?kind=water', 'DELETE'],
      ['/plants/7/events/x', 'GET'],
      ['/plants/7/events/x', 'DELETE'],
    ]
    const reader = await newCaller(['plants:read'])
    const writer = await newCaller(['plants:write'])
    for (const [path, method, json] of asked) {
      const sent = { method, ...(json === undefined ? {} : { json }) }
      const { message } = await expectError(await other.send(path, sent), 'plants', 404)
      expect(message).toBe('You have no plant with this id. GET /plants lists your plants.')
      await expectError(await (method === 'GET' ? writer : reader).send(path, sent), 'plants', 403)
      await expectError(await owner.send(path, { ...sent, headers: { authorization: null } }), 'plants', 401)
    }
    await expectError(await writer.send('/care/due'), 'plants', 403)
    await expectError(await reader.send('/events', { json: [{ plant: 7, kind: 'water' }] }), 'plants', 403)
    expect((await ask(owner, '/plants/7/care')).body.data).toHaveLength(1)
  })

  it('has replies with the headers of the plants group, and names what it ignores', async () => {
    const caller = await keeper()
    const response = await caller.send('/plants/7/care/water?x=1', { method: 'PUT', json: { every_days: 7, often: 1 } })
    expect(response.headers.get('x-ignored-params')).toBe('x,often')
  })
})

describe('faulty care', () => {
  const season = (changed: object) => ({ every_days: 7, season: { ...winter, ...changed } })
  it.each<[body: unknown, message: string]>([
    [{}, 'The field "every_days" is missing.'],
    [{ every_days: null }, 'The field "every_days" is not valid: send a whole number of days from 1 to 3650.'],
    [{ every_days: 0 }, 'from 1 to 3650'],
    [{ every_days: 3651 }, 'from 1 to 3650'],
    [{ every_days: 1.5 }, 'from 1 to 3650'],
    [{ every_days: '7' }, 'from 1 to 3650'],
    [season({ from: '02-30' }), '"season.from" is a day that no year has'],
    [season({ to: '04-31' }), '"season.to" is a day that no year has'],
    [season({ to: '13-01' }), '"season.to" is a day that no year has'],
    [season({ to: '00-10' }), '"season.to" is a day that no year has'],
    [season({ from: '1-1' }), '"season.from" is not valid: send a month and a day, such as "11-01".'],
    [season({ from: '2026-11-01' }), '"season.from" is not valid'],
    [season({ every_days: 0 }), '"season.every_days" is not valid'],
    [season({ every_days: undefined }), '"season.every_days" is missing'],
    [{ every_days: 7, season: null }, '"season" is not valid: send an object with "from", "to" and "every_days"'],
    [[], 'The body must be a JSON object.'],
  ])('%j is a 400', async (json, said) => {
    const caller = await keeper()
    const { message } = await expectError(
      await caller.send('/plants/7/care/water', { method: 'PUT', json }),
      'plants',
      400,
    )
    expect(message).toContain(said)
    expect((await ask(caller, '/plants/7/care')).body.data).toEqual([])
  })

  it.each(['Water', '1st', 'a'.repeat(33), 'w%20r', '_x', 'caf%C3%A9'])('the kind %s is a 400', async (kind) => {
    const caller = await keeper()
    const put = await caller.send(`/plants/7/care/${kind}`, { method: 'PUT', json: { every_days: 7 } })
    expect((await expectError(put, 'plants', 400)).message).toContain('The path part "kind" is not valid')
  })

  it('29 February is a day of a season', async () => {
    const caller = await keeper()
    const set = await ask(caller, '/plants/7/care/water', 'PUT', season({ from: '02-29', to: '02-29' }))
    expect(set).toMatchObject({ status: 201, body: { season: { from: '02-29', to: '02-29' } } })
  })

  it.each([0, 367, 1.5, '2', null])('a snooze of %j days is a 400', async (days) => {
    const caller = await keeper()
    await ask(caller, '/plants/7/care/water', 'PUT', { every_days: 7 })
    const sent = await caller.send('/plants/7/care/water/snooze', { json: { days } })
    expect((await expectError(sent, 'plants', 400)).message).toContain('from 1 to 366')
  })

  it.each([
    ['/plants/7/care/feed', 'DELETE', undefined],
    ['/plants/7/care/feed/snooze', 'POST', { days: 1 }],
  ])('%s without a schedule is a 404', async (path, method, json) => {
    const caller = await keeper()
    const { message } = await expectError(await caller.send(path, { method, ...(json ? { json } : {}) }), 'plants', 404)
    expect(message).toContain('no schedule for this kind of care')
  })
})
