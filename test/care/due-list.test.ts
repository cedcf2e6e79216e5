import { describe, expect, it } from 'vitest'
import { renewDueDates } from '../../src/care/rules.ts'
import { advanceTo, ask, clockForThisFile, day, keeper, nextOf, now } from '../support/care.ts'
import { expectError } from '../support/http.ts'
import { type Caller, newCaller, plantServiceForThisFile, service, sql } from '../support/plant-callers.ts'
import { storesForThisTest } from '../support/test-database.ts'

clockForThisFile()
plantServiceForThisFile()

/** Adds rules with these due dates. Their plants exist. */
const insertRules = ({ account }: Caller, rules: readonly (readonly [plant: number, kind: string, due: string])[]) =>
  sql.insert(
    'care_rules',
    rules.map(([plant, kind, due]) => ({ account, plant, kind, every_days: 7, set_on: due, due })),
  )
const dueFor = async (caller: Caller, query = '') => (await ask(caller, `/care/due${query}`)).body.data
const archive = (caller: Caller, plant: number) => ask(caller, `/plants/${plant}`, 'PATCH', { archived: true })
const share = (owner: Caller, grantee: Caller, tag = '') =>
  sql.insert('grants', [{ owner: owner.account, grantee: grantee.account, tag, created: 0 }])

describe('what is due', () => {
  it('is what was due before today, today, and within the next days, by date, plant and kind', async () => {
    const caller = await keeper([
      { id: 7, name: 'Monstera' },
      { id: -3, name: 'Fern' },
    ])
    await insertRules(caller, [
      [7, 'water', '2026-11-27'],
      [7, 'feed', '2026-11-29'],
      [-3, 'water', '2026-11-29'],
      [7, 'clean', '2026-11-29'],
      [7, 'prune', '2026-12-01'],
      [7, 'repot', '2027-11-30'],
    ])
    await ask(caller, '/plants/7/care/mist', 'PUT', { every_days: 2 })
    await ask(caller, '/plants/7/events', 'POST', { kind: 'mist', at: now - 4 * day })
    const entry = (plant: number, kind: string, due: string, overdue_days: number, last: number | null = null) => ({
      plant,
      name: plant === 7 ? 'Monstera' : 'Fern',
      kind,
      due,
      overdue_days,
      last,
    })
    const today = [
      entry(7, 'mist', '2026-11-27', 2, now - 4 * day),
      entry(7, 'water', '2026-11-27', 2),
      entry(-3, 'water', '2026-11-29', 0),
      entry(7, 'clean', '2026-11-29', 0),
      entry(7, 'feed', '2026-11-29', 0),
    ]
    expect((await ask(caller, '/care/due')).body).toStrictEqual({ object: 'list', data: today, has_more: false })
    expect(await dueFor(caller, '?within=1d')).toStrictEqual(today)
    expect(await dueFor(caller, '?within=2d')).toStrictEqual([...today, entry(7, 'prune', '2026-12-01', 0)])
    expect(await dueFor(caller, '?within=366d')).toHaveLength(7)
    expect(await dueFor(caller, '?within=365d')).toHaveLength(6)
    advanceTo(1)
    expect(await dueFor(caller, '?limit=1')).toMatchObject([{ kind: 'mist', overdue_days: 3 }])
  })

  it('leaves out archived plants, and has them again when they are not archived any more', async () => {
    const caller = await keeper([
      { id: 1, name: 'Fern' },
      { id: 2, name: 'Moss' },
    ])
    await insertRules(caller, [
      [1, 'water', '2026-11-29'],
      [2, 'water', '2026-11-29'],
    ])
    await archive(caller, 1)
    expect(await dueFor(caller)).toMatchObject([{ plant: 2 }])
    await ask(caller, '/plants/1', 'PATCH', { archived: null })
    expect(await dueFor(caller)).toMatchObject([{ plant: 1 }, { plant: 2 }])
  })

  it('has the plants that others share, without ids, and by a tag only those that carry it', async () => {
    const owner = await keeper([
      { id: 1, name: 'Monstera', tag: 'aroid' },
      { id: 2, name: 'Fern' },
      { id: 3, name: 'Moss', tag: 'moss' },
    ])
    const [all, tagged, stranger] = [await keeper([{ id: 2, name: 'Mine' }]), await newCaller(), await newCaller()]
    await insertRules(owner, [
      [1, 'water', '2026-11-20'],
      [2, 'water', '2026-11-21'],
      [3, 'water', '2026-11-22'],
    ])
    await insertRules(all, [[2, 'water', '2026-11-21']])
    await share(owner, all)
    await share(owner, tagged, 'aroid')
    await share(owner, tagged, 'moss')
    const shared = (name: string, due: string, overdue_days: number) => {
      return { name, kind: 'water', due, overdue_days, last: null }
    }
    const [first, third] = [shared('Monstera', '2026-11-20', 9), shared('Moss', '2026-11-22', 7)]
    const second = [shared('Fern', '2026-11-21', 8), { plant: 2, ...shared('Mine', '2026-11-21', 8) }]
    expect(await dueFor(all)).toStrictEqual([first, ...second, third])
    expect(await dueFor(tagged)).toStrictEqual([first, third])
    expect(await dueFor(stranger)).toEqual([])
    for (const [caller, expected] of [
      [all, [first, ...second, third]],
      [tagged, [first, third]],
    ] as const) {
      const pages: unknown[] = []
      for (let path = '/care/due?limit=1'; path !== ''; ) {
        const page = await ask(caller, path)
        expect(page.body.data).toHaveLength(1)
        pages.push(...page.body.data)
        path = nextOf(page)
      }
      expect(pages).toStrictEqual(expected)
    }
  })

  it('has pages that stay exact while plants come and go, whose links keep the parameters', async () => {
    const ids = Array.from({ length: 30 }, (_, id) => id)
    const caller = await keeper(ids.map((id) => ({ id, name: `p${id}` })))
    await insertRules(
      caller,
      ids.map((id) => [id, 'water', id % 2 ? '2026-11-28' : '2026-11-30'] as const),
    )
    const seen: number[] = []
    for (let path = '/care/due?within=3d&limit=7'; path !== ''; ) {
      const page = await ask(caller, path)
      seen.push(...page.body.data.map(({ plant }: { plant: number }) => plant))
      path = nextOf(page)
      if (path !== '') expect(path).toMatch(/^\/care\/due\?within=3d&limit=7&after=/)
      await ask(caller, `/plants/${seen.at(-1)}`, 'DELETE')
    }
    expect(seen).toEqual([...ids.filter((id) => id % 2 === 1), ...ids.filter((id) => id % 2 === 0)])
  })

  it('is found behind any number of archived plants and plants without the shared tag', async () => {
    const ids = Array.from({ length: 2100 }, (_, id) => id)
    const owner = await keeper(ids.map((id) => ({ id, name: 'Moss', tag: id === 2099 ? 'rare' : 'moss' })))
    const [grantee, other] = [await newCaller(), await newCaller()]
    await share(owner, grantee, 'rare')
    await share(owner, other, 'moss')
    await share(owner, other, 'none')
    await insertRules(
      owner,
      ids.map((id) => [id, 'mist', '2026-11-29'] as const),
    )
    await sql.run('UPDATE plants SET archived = 1 WHERE account = ? AND id < 1200', owner.account)
    expect(await dueFor(owner, '?limit=2')).toMatchObject([{ plant: 1200 }, { plant: 1201 }])
    expect(await dueFor(grantee, '?limit=2')).toMatchObject([{ name: 'Moss', kind: 'mist' }])
    expect(await dueFor(other, '?limit=1000')).toHaveLength(899)
  })

  it.each([
    ['within=forever', '"within" is no number of days from 0d to 366d; send one such as 3d.'],
    ['within=367d', '"within" is no number of days'],
    ['within=-1d', '"within" is no number of days'],
    ['within=3', '"within" is no number of days'],
    ['within=1d&within=2d', '"within" is not valid: send it once.'],
    ['limit=0', 'from 1 to 1000'],
    ['after=abc', '"after" is not valid here'],
  ])('of %s is a 400', async (query, said) => {
    const caller = await keeper()
    expect((await expectError(await caller.send(`/care/due?${query}`), 'plants', 400)).message).toContain(said)
  })
})

describe('the time zone of an account', () => {
  it('begins its days, and moves its due dates when it changes; other accounts see the days of the owner', async () => {
    const [owner, other] = [await keeper(), await newCaller()]
    const stores = await storesForThisTest(service.dataDirectory)
    const move = async ({ account }: Caller, zone: string) => {
      await sql.run('UPDATE accounts SET time_zone = ? WHERE id = ?', zone, account)
      await renewDueDates(stores.scripts, account)
    }
    // 03:00 of 29 November in Berlin, 21:00 of 28 November in New York.
    const at = Date.parse('2026-11-29T02:00:00Z') / 1000
    await ask(owner, '/plants/7/events', 'POST', { kind: 'water', at })
    await ask(owner, '/plants/7/care/water', 'PUT', { every_days: 1 })
    await ask(owner, '/plants/7/care/feed', 'PUT', { every_days: 1 })
    const dates = async () => (await ask(owner, '/plants/7/care')).body.data.map(({ due }: { due: string }) => due)
    expect(await dates()).toEqual(['2026-11-29', '2026-11-30'])
    await move(owner, 'America/New_York')
    await renewDueDates(stores.scripts, owner.account)
    expect(await dates()).toEqual(['2026-11-29', '2026-11-29'])
    await share(owner, other)
    await move(other, 'Pacific/Kiritimati')
    // It is 30 November at noon on Kiritimati when it is 29 November at 22:00 in UTC.
    advanceTo(10 / 24)
    expect(await dueFor(owner)).toMatchObject([{ overdue_days: 0 }, { overdue_days: 0 }])
    expect(await dueFor(other)).toMatchObject([
      { due: '2026-11-29', overdue_days: 1 },
      { due: '2026-11-29', overdue_days: 1 },
    ])
    await move(owner, 'Europe/Berlin')
    expect(await dates()).toEqual(['2026-11-29', '2026-11-30'])
    const set = await ask(owner, '/plants/7/care/mist', 'PUT', { every_days: 1 })
    expect(set.body.due).toBe('2026-11-29')
    advanceTo(11.5 / 24)
    expect((await ask(owner, '/plants/7/care/prune', 'PUT', { every_days: 1 })).body.due).toBe('2026-11-30')
  })

  it('moves the dates of any number of rules', async () => {
    const ids = Array.from({ length: 450 }, (_, id) => id)
    const caller = await keeper(ids.map((id) => ({ id, name: 'Moss' })))
    const at = Date.parse('2026-11-29T23:30:00Z') / 1000
    await ask(
      caller,
      '/events',
      'POST',
      ids.map((plant) => ({ plant, kind: 'water', at })),
    )
    await insertRules(
      caller,
      ids.map((id) => [id, 'water', '2026-01-01'] as const),
    )
    await sql.run('UPDATE care_rules SET last = ? WHERE account = ?', at, caller.account)
    await sql.run("UPDATE accounts SET time_zone = 'Europe/Berlin' WHERE id = ?", caller.account)
    const stores = await storesForThisTest(service.dataDirectory)
    await renewDueDates(stores.scripts, caller.account)
    const rows = await sql.run<{ due: string }>('SELECT DISTINCT due FROM care_rules WHERE account = ?', caller.account)
    expect(rows).toEqual([{ due: '2026-12-07' }])
  })
})

describe('include=care,due', () => {
  it('adds both to plants and lists, to shared plants, too, and a reply with them has no ETag', async () => {
    const caller = await keeper([
      { id: 1, name: 'Fern' },
      { id: 2, name: 'Moss' },
    ])
    const other = await newCaller()
    await share(caller, other)
    await ask(caller, '/plants/1/events', 'POST', { kind: 'water', at: now - 9 * day })
    const water = (await ask(caller, '/plants/1/care/water', 'PUT', { every_days: 7 })).body
    const feed = (await ask(caller, '/plants/1/care/feed', 'PUT', { every_days: 30 })).body
    const due = [
      { kind: 'water', due: '2026-11-27', overdue_days: 2, last: now - 9 * day },
      { kind: 'feed', due: '2026-11-29', overdue_days: 0, last: null },
    ]
    const one = await ask(caller, '/plants/1?include=care,due')
    expect(one.body).toStrictEqual({ name: 'Fern', care: [feed, water], due })
    expect(one.headers.get('etag')).toBeNull()
    const listed = [
      { name: 'Fern', due },
      { name: 'Moss', due: [] },
    ]
    const list = await ask(caller, '/plants?include=due')
    expect(list.body).toStrictEqual(listed)
    expect(list.headers.get('etag')).toBeNull()
    expect((await ask(other, '/plants?include=due')).body).toStrictEqual(listed)
    expect((await ask(caller, '/plants?include=care')).body).toStrictEqual([
      { name: 'Fern', care: [feed, water] },
      { name: 'Moss', care: [] },
    ])
    const renamed = await ask(caller, '/plants/1?include=id,due', 'PATCH', { name: 'Bracken' })
    expect(renamed.body).toStrictEqual({ id: 1, name: 'Bracken', due })
    await archive(caller, 1)
    expect((await ask(caller, '/plants/1?include=due')).body).toStrictEqual({ name: 'Bracken', due: [] })
  })

  it('is read for every plant of a list of 1,000', async () => {
    const ids = Array.from({ length: 1000 }, (_, id) => id)
    const caller = await keeper(ids.map((id) => ({ id, name: `p${id}` })))
    await insertRules(
      caller,
      ids.map((id) => [id, 'mist', '2026-11-29'] as const),
    )
    const plants = (await ask(caller, '/plants?limit=1000&include=id,care')).body
    expect(plants.map(({ id, care }: { id: number; care: unknown[] }) => [id, care.length])).toEqual(
      ids.map((id) => [id, 1]),
    )
  })
})
