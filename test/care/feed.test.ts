import ICAL from 'ical.js'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { TestClock } from '../support/clock.ts'
import { conservatory } from '../support/command.ts'
import { expectError } from '../support/http.ts'
import { logForThisTest } from '../support/log.ts'
import { type Caller, newCaller, plantInBulk, plantServiceForThisFile, service, sql } from '../support/plant-callers.ts'
import { serviceForThisTest } from '../support/service.ts'
import { settingsOf, storesForThisTest } from '../support/test-database.ts'

const noon = Date.parse('2026-11-29T12:00:00Z')
const now = noon / 1000
const day = 86_400

beforeAll(() => {
  vi.useFakeTimers({ toFake: ['Date'], now: noon })
})
plantServiceForThisFile()
afterAll(() => {
  vi.useRealTimers()
})

async function makeFeed(caller: Caller): Promise<string> {
  const made = await caller.send('/care/feed', { method: 'POST' })
  expect(made.status).toBe(201)
  expect(made.headers.get('cache-control')).toBe('no-store')
  const body = JSON.parse(await made.text())
  expect(body).toEqual({
    url: expect.stringMatching(/^\/care\.ics\?token=feed_[\w-]{32}$/),
    created: expect.any(Number),
  })
  return body.url
}

const getFeed = (url: string, headers: Record<string, string> = {}, method = 'GET') =>
  service.request(url, { method, headers: { authorization: null, ...headers } })

/** The events of a calendar, as another library reads them. */
async function eventsOf(url: string) {
  const reply = await getFeed(url)
  expect([reply.status, reply.headers.get('content-type')]).toEqual([200, 'text/calendar; charset=utf-8'])
  const calendar = new ICAL.Component(ICAL.parse(await reply.text()))
  return calendar.getAllSubcomponents('vevent').map((component) => {
    const { uid, summary, startDate, description } = new ICAL.Event(component)
    expect(startDate.isDate).toBe(true)
    return { uid, summary, day: startDate.toString(), description }
  })
}

const shown = (events: Awaited<ReturnType<typeof eventsOf>>) => events.map(({ day, summary }) => `${day} ${summary}`)

async function water(caller: Caller, plant: number, everyDays: number, at: number, kind = 'water') {
  const json = { every_days: everyDays }
  expect((await caller.send(`/plants/${plant}/care/${kind}`, { method: 'PUT', json })).ok).toBe(true)
  expect((await caller.send(`/plants/${plant}/events`, { method: 'POST', json: { kind, at } })).ok).toBe(true)
}

describe('a calendar feed', () => {
  it('has what is due next for each plant and kind, overdue ones today, and names that stay', async () => {
    const caller = await newCaller()
    await plantInBulk(caller, [
      { id: 7, name: 'Monstera, "🌿"; \\ größer' },
      { id: 8, name: 'Moss' },
      { id: 9, name: 'Gone' },
    ])
    const url = await makeFeed(caller)
    expect(await eventsOf(url)).toEqual([])
    await water(caller, 7, 7, now - 9 * day)
    await water(caller, 7, 30, now, 'feed')
    await water(caller, 8, 7, now - 7 * day)
    await water(caller, 9, 7, now)
    expect((await caller.send('/plants/9', { method: 'PATCH', json: { archived: true } })).status).toBe(200)
    const before = await eventsOf(url)
    expect(shown(before)).toEqual([
      '2026-11-29 Monstera, "🌿"; \\ größer: water',
      '2026-11-29 Moss: water',
      '2026-12-29 Monstera, "🌿"; \\ größer: feed',
    ])
    expect(before.map(({ description }) => description)).toEqual(['Due since 2026-11-27.', null, null])
    expect(new Set(before.map(({ uid }) => uid)).size).toBe(3)
    await water(caller, 7, 7, now)
    const after = await eventsOf(url)
    expect(shown(after)).toEqual([
      '2026-11-29 Moss: water',
      '2026-12-06 Monstera, "🌿"; \\ größer: water',
      '2026-12-29 Monstera, "🌿"; \\ größer: feed',
    ])
    expect(after.map(({ uid }) => uid).toSorted()).toEqual(before.map(({ uid }) => uid).toSorted())
  })

  it('has the plants that others share, without their ids', async () => {
    const [caller, owner] = [await newCaller(), await newCaller()]
    await plantInBulk(owner, [{ id: 424_242, name: 'Shared' }])
    await water(owner, 424_242, 7, now)
    const url = await makeFeed(caller)
    await sql.insert('grants', [{ owner: owner.account, grantee: caller.account, tag: '', created: 1 }])
    expect(shown(await eventsOf(url))).toEqual(['2026-12-06 Shared: water'])
    expect(await (await getFeed(url)).text()).not.toContain('424242')
  })

  it('has an ETag, a cache time, and its days in the time zone of the account', async () => {
    const caller = await newCaller()
    await plantInBulk(caller, [{ id: 7, name: 'Fern' }])
    await water(caller, 7, 7, now - 20 * day)
    const url = await makeFeed(caller)
    const first = await getFeed(url)
    const etag = first.headers.get('etag') ?? ''
    expect(etag).toMatch(/^"[\w-]+"$/)
    expect(first.headers.get('cache-control')).toBe('private, max-age=900')
    const same = await getFeed(url, { 'if-none-match': etag })
    expect([same.status, await same.text(), same.headers.get('etag')]).toEqual([304, '', etag])
    const head = await getFeed(url, {}, 'HEAD')
    expect([head.status, head.headers.get('etag'), await head.text()]).toEqual([200, etag, ''])
    const [row] = await sql.run<{ name: string }>('SELECT name FROM accounts WHERE id = ?', caller.account)
    const zone = ['--time-zone', 'Pacific/Auckland']
    await conservatory(['accounts', 'set', row?.name ?? '', ...zone], await settingsOf(service.dataDirectory))
    expect(shown(await eventsOf(url))).toEqual(['2026-11-30 Fern: water'])
    expect((await getFeed(url, { 'if-none-match': etag })).status).toBe(200)
  })

  it('ends with DELETE, with the next POST and with a suspension; every other address is the same 404', async () => {
    const caller = await newCaller()
    const [row] = await sql.run<{ name: string }>('SELECT name FROM accounts WHERE id = ?', caller.account)
    const { access } = await storesForThisTest(service.dataDirectory)
    const refused = async (url: string) => {
      const { message } = await expectError(await getFeed(url), 'plants', 404)
      expect(message).toBe('There is no such calendar. Check its address, or make another one.')
    }
    const first = await makeFeed(caller)
    const second = await makeFeed(caller)
    await refused(first)
    expect((await getFeed(second)).status).toBe(200)
    await access.suspendAccount(row?.name ?? '')
    await refused(second)
    await access.resumeAccount(row?.name ?? '')
    expect((await getFeed(second)).status).toBe(200)
    const ended = await caller.send('/care/feed', { method: 'DELETE' })
    expect([ended.status, await ended.text()]).toEqual([204, ''])
    await refused(second)
    await expectError(await caller.send('/care/feed', { method: 'DELETE' }), 'plants', 404)
    await refused('/care.ics?token=')
    await refused(`/care.ics?token=${caller.key}`)
    await refused(`/care.ics?token=${'x'.repeat(8000)}`)
    for (const path of ['/care.ics', `${second}&token=other`]) await expectError(await getFeed(path), 'plants', 400)
    const reader = await service.makeKey('reader', ['plants:read'])
    for (const method of ['POST', 'DELETE']) {
      const headers = { authorization: `Bearer ${reader}` }
      await expectError(await service.request('/care/feed', { method, headers }), 'plants', 403)
    }
  })

  it('is in the audit trail, and its secret is in no record and no log', async () => {
    const log = logForThisTest()
    const other = await serviceForThisTest({ LOG_LEVEL: 'trace' })
    const make = async () => {
      const { url }: { url: string } = JSON.parse(await (await other.request('/care/feed', { method: 'POST' })).text())
      return url
    }
    const urls = [await make(), await make()]
    expect((await other.request(urls[1] ?? '')).status).toBe(200)
    expect((await other.request(urls[0] ?? '')).status).toBe(404)
    await other.request('/care/feed', { method: 'DELETE' })
    const records = await (await storesForThisTest(other.dataDirectory)).audit.list({ limit: 100 })
    const feeds = records.filter(({ action }) => action.startsWith('feed.'))
    const made = { created: expect.any(Number) }
    expect(feeds.map(({ action, target, before, after }) => ({ action, target, before, after }))).toEqual([
      { action: 'feed.created', target: null, before: null, after: made },
      { action: 'feed.created', target: null, before: made, after: made },
      { action: 'feed.ended', target: null, before: made, after: null },
    ])
    await other.close()
    expect(log()).toContain('/care.ics')
    const everything = JSON.stringify(records) + log()
    for (const url of urls) expect(everything).not.toContain(url.slice(-20))
  })

  it('has at most 10,000 events, and says so', async () => {
    const caller = await newCaller()
    const plants = Array.from({ length: 10_001 }, (_, index) => ({ id: index + 1, name: `Fern ${index}` }))
    await plantInBulk(caller, plants)
    const rules = plants.map(({ id }) => ({
      ...{ account: caller.account, plant: id, kind: 'water', every_days: 7, set_on: '2026-11-29', due: '2026-12-01' },
    }))
    await sql.insert('care_rules', rules)
    const text = await (await getFeed(await makeFeed(caller))).text()
    expect(text.match(/BEGIN:VEVENT/g)).toHaveLength(10_000)
    expect(text).toContain('Only the next 10000 due dates are in this calendar.')
  })
})

it('guesses of a feed are delayed as those of keys are', async () => {
  const clock = new TestClock()
  const slow = await serviceForThisTest({}, undefined, { clock })
  const guess = () => slow.request('/care.ics?token=feed_guess', { headers: { authorization: null } })
  await Promise.all(Array.from({ length: 100 }, guess))
  const slowed = guess()
  await clock.untilWaiting(5)
  clock.advance(5)
  await expectError(await slowed, 'plants', 404)
})
