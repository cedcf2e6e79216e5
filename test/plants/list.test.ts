import { once } from 'node:events'
import { connect } from 'node:net'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it, onTestFinished } from 'vitest'
import { refreshSnapshots } from '../../src/storage/snapshots.ts'
import { connectTo } from '../support/connection.ts'
import { cursorsOf } from '../support/cursors.ts'
import { eventually } from '../support/eventually.ts'
import { expectError } from '../support/http.ts'
import {
  cactus,
  callers,
  newCaller,
  nextPage,
  plantInBulk,
  plantServiceForThisFile,
  type Row,
  readPages,
  readPlants,
  service,
  sql,
} from '../support/plant-callers.ts'
import { eachPage, namesOf } from '../support/plant-pages.ts'
import { isOverPostgres, storesForThisTest } from '../support/test-database.ts'

plantServiceForThisFile()

describe('GET /plants', () => {
  it('is an empty array without plants', async () => {
    const response = await (await newCaller()).send('/plants')
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(response.headers.get('link')).toBeNull()
    expect(await response.text()).toBe('[]')
  })

  it('is ordered by id and has only name and tag of each plant', async () => {
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
    ['offset=2&Limit=1&query=a', ['a', 'b', 'c'], false],
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
  ])('refuses the invalid cursor %j with 400', async (cursor) => {
    const path = `/plants?limit=2&after=${cursor.includes('&') ? cursor : encodeURIComponent(cursor)}`
    const { message } = await expectError(await (await newCaller()).send(path), 'plants', 400)
    expect(message).toContain('"after"')
  })

  it('refuses a cursor that was changed, also in one bit, and one of an earlier version, with advice to begin again', async () => {
    const caller = await newCaller()
    const cursors = await cursorsOf(service.dataDirectory)
    const good = cursors.write({ account: caller.account, id: 5 })
    const bytes = Buffer.from(good, 'base64url')
    const flipped = Array.from({ length: bytes.length }, (_, at) => {
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] ?? 0) ^ 0x10
      return changed.toString('base64url')
    })
    // The last character has two unused bits.
    const last = good.slice(0, -1) + String.fromCharCode(good.charCodeAt(good.length - 1) + 1)
    const others = [
      `${good}!`,
      `${good}=`,
      ` ${good}`,
      good.slice(1),
      last,
      '1:5',
      Buffer.from('1:5').toString('base64url'),
    ]
    for (const cursor of [...flipped, ...others]) {
      const reply = await caller.send(`/plants?limit=2&after=${encodeURIComponent(cursor)}`)
      expect((await expectError(reply, 'plants', 400)).message).toContain('Begin again without it')
    }
    const twice = await caller.send(`/plants?after=${good}&after=${good}`)
    expect((await expectError(twice, 'plants', 400)).message).toContain('"after"')
    expect((await caller.send(`/plants?limit=2&after=${good}`)).status).toBe(200)
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

  it('has every plant exactly once over all pages, in order, while other plants are added', async () => {
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

  it.for([
    ['limit=1001', 1001, true],
    ['limit=2400', 2400, true],
    ['limit=2499', 2499, true],
    ['limit=2500', 2500, false],
    ['limit=2147483647', 2500, false],
    ['limit=1100&tag=odd', 1100, true],
  ] as const)('with ?%s is streamed, and has the headers of a short page', async ([query, count, hasMore]) => {
    const caller = await newCaller()
    const rows = rowNames(2500, `"${cactus}\\`).map((name, id) => ({ id, name, ...(id % 2 ? { tag: 'odd' } : {}) }))
    await plantInBulk(caller, rows)
    const path = `/plants?${query}`
    const response = await caller.send(path)
    const text = await response.text()
    const expected = rows.filter(({ tag }) => tag === 'odd' || !query.includes('odd')).map(({ id, ...plant }) => plant)
    expect(JSON.parse(text)).toStrictEqual(expected.slice(0, count))
    expect(nextPage(response) !== undefined).toBe(hasMore)
    const etag = response.headers.get('etag') ?? ''
    expect(etag).toMatch(/^W\/".+"$/)
    const heading = (found: Response) => ({
      status: found.status,
      type: found.headers.get('content-type'),
      length: found.headers.get('content-length'),
      link: found.headers.get('link'),
      etag: found.headers.get('etag'),
    })
    const length = String(Buffer.byteLength(text))
    expect(heading(response)).toMatchObject({ status: 200, type: 'application/json; charset=utf-8', length })
    const head = await caller.send(path, { method: 'HEAD' })
    expect([heading(head), await head.text()]).toStrictEqual([heading(response), ''])
    const same = await caller.send(path, { headers: { 'if-none-match': etag } })
    expect([same.status, await same.text(), same.headers.get('etag')]).toEqual([304, '', etag])
    await caller.post('{"name": "newer", "id": -1, "tag": "odd"}')
    const changed = await caller.send(path, { headers: { 'if-none-match': etag } })
    expect([changed.status, changed.headers.get('etag') === etag]).toEqual([200, false])
    await changed.text()
  })

  it('never has more bytes than its headers say, if a snapshot moves while it is sent', async () => {
    const caller = await newCaller()
    const names = rowNames(60_000, 'x'.repeat(200))
    await plantInBulk(
      caller,
      names.map((name, id) => ({ id, name })),
    )
    const reader = await connectTo(service.url)
    const headers = `Host: x\r\nAuthorization: Bearer ${caller.key}\r\nConnection: close`
    // The reader stops when the headers have arrived, and the rest is more than the buffers of a connection hold.
    const began = new Promise<void>((resolve) => reader.socket.once('data', () => resolve(void reader.socket.pause())))
    reader.socket.write(`GET /plants?limit=70000 HTTP/1.1\r\n${headers}\r\n\r\n`)
    await began
    await caller.post(JSON.stringify({ name: 'y'.repeat(200) }))
    refreshSnapshots(join(service.dataDirectory, 'conservatory.db'))
    reader.socket.resume()
    await reader.closed
    const [head = '', body = ''] = reader.text().split('\r\n\r\n')
    const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? Number.POSITIVE_INFINITY)
    expect(length).toBeGreaterThan(12_000_000)
    expect(body.length).toBeLessThanOrEqual(length)
  })

  it('can start at a cursor, and answers HEAD', async () => {
    const caller = await newCaller()
    await plantInBulk(caller, manyRows)
    const after = (await cursorsOf(service.dataDirectory)).write({ account: caller.account, id: 499 })
    expect(await caller.names(`?after=${after}`)).toStrictEqual(manyNames.slice(500))
    const head = await caller.send('/plants', { method: 'HEAD' })
    expect({ status: head.status, text: await head.text() }).toStrictEqual({ status: 200, text: '' })
    const pages = await readPages(caller, '/plants?limit=1200')
    expect(pages.map((page) => page.length)).toStrictEqual([1200, 1200, 100])
  })

  it('shows one snapshot; over PostgreSQL, each page shows a snapshot of its own', async () => {
    const caller = await newCaller()
    await plantInBulk(caller, manyRows)
    const stores = await storesForThisTest(service.dataDirectory)
    const names: string[] = []
    for await (const page of stores.plants.listLong(caller.account, {}, eachPage)) {
      names.push(...namesOf(page))
      expect((await caller.post(`{"name": "late", "id": ${5000 + names.length}}`)).status).toBe(200)
      expect((await caller.send(`/plants/${names.length + 10}`, { method: 'DELETE' })).status).toBeLessThan(500)
    }
    // With a snapshot for each page, each later page lacks one removed plant, and the late plants are at the end.
    const gone = [510, 1010, 1510, 2010]
    if (isOverPostgres)
      expect(names.filter((name) => name !== 'late')).toStrictEqual(manyNames.filter((_, id) => !gone.includes(id)))
    else expect(names).toStrictEqual(manyNames)
  })

  it.for(['/plants', '/plants?limit=9999'])(
    'of %s does not keep its snapshot when its reader leaves half-way',
    async (path) => {
      // The list has 20 MB, far more than the sockets' buffers hold, so the service must wait for the reader.
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
      socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n\r\n`)
      const [first] = await once(socket, 'data')
      expect(String(first)).toMatch(/^HTTP\/1\.1 200 /)
      socket.pause()
      expect((await other.post('{"name": "newer"}')).status).toBe(200)
      if (isOverPostgres) await eventually(async () => expect(await sql.hasReader()).toBe(false))
      else expect(await sql.hasReader()).toBe(true)
      socket.destroy()
      await eventually(async () => expect(await sql.hasReader()).toBe(false))
    },
  )
})
