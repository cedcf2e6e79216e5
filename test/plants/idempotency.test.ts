import { hash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { readIdempotency } from '../../src/plants/idempotency.ts'
import { eventually } from '../support/eventually.ts'
import { expectError, sendRaw } from '../support/http.ts'
import { startTestService, type TestService, temporaryFolder } from '../support/service.ts'
import { storesForThisTest } from '../support/test-database.ts'
import { sqlForThisTest } from '../support/test-sql.ts'

let service: TestService

beforeAll(async () => {
  service = await startTestService()
})
afterAll(() => service?.close())

const add = (body: string | object, key: string | null, headers: Record<string, string> = {}) =>
  service.request('/plants', {
    method: 'POST',
    body: typeof body === 'string' ? body : JSON.stringify(body),
    headers: { 'content-type': 'application/json', 'idempotency-key': key, ...headers },
  })

async function names(): Promise<readonly string[]> {
  const plants: readonly { name: string }[] = JSON.parse(await (await service.request('/plants')).text())
  return plants.map(({ name }) => name)
}

describe('an Idempotency-Key', () => {
  it('gets the first reply again for an equal JSON body, however it is written, and adds one plant', async () => {
    const first = await add('{"name": "Fern", "tag": "shade"}', 'a')
    expect([first.status, first.headers.get('idempotency-replayed')]).toEqual([200, null])
    for (const body of ['{"name": "Fern", "tag": "shade"}', '{"tag":"shade","name":"Fern"}']) {
      const again = await add(body, 'a')
      expect([again.status, again.headers.get('idempotency-replayed')]).toEqual([200, 'true'])
      expect(again.headers.get('location')).toBe(first.headers.get('location'))
      expect(await again.json()).toEqual({ name: 'Fern', tag: 'shade' })
    }
    expect((await names()).filter((name) => name === 'Fern')).toHaveLength(1)
  })

  it('is compared with a digest that stays the same in all versions', () => {
    const body = { tag: 'shade', name: 'Fern', more: [{ b: 1, a: null }, [], {}] }
    const text = '{"more":[{"a":null,"b":1},[],{}],"name":"Fern","tag":"shade"}'
    expect(readIdempotency('a', body).request).toBe(hash('sha256', text))
  })

  it('that is sent twice is a 400, not one key of both, and nothing is written', async () => {
    const headers: [string, string][] = [
      ['authorization', `Bearer ${service.key}`],
      ['content-type', 'application/json'],
      ['idempotency-key', 'k1'],
      ['idempotency-key', 'k2'],
    ]
    const lines = ['Host: x', 'Connection: close', ...headers.map((pair) => pair.join(': ')), 'Content-Length: 16']
    const bytes = `POST /plants HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n{"name":"Twice"}`
    const { message } = await expectError(await sendRaw(service.url, bytes), 'plants', 400)
    expect(message).toContain('two Idempotency-Key headers')
    expect(await names()).not.toContain('Twice')
  })

  it('is refused for another body with a 422, and nothing is written', async () => {
    expect((await add({ name: 'Moss' }, 'b')).status).toBe(200)
    const other = await add({ name: 'Lichen' }, 'b')
    expect(other.status).toBe(422)
    expect(await other.json()).toEqual({ error: 422, message: expect.stringContaining('another request') })
    expect(await names()).not.toContain('Lichen')
  })

  it('of several concurrent requests adds one plant; the other requests get a 409 or the first reply', async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => add({ name: 'Once' }, 'c')))
    const statuses = new Set(answers.map(({ status }) => status))
    expect([...statuses].every((status) => status === 200 || status === 409)).toBe(true)
    expect((await names()).filter((name) => name === 'Once')).toHaveLength(1)
  })

  it('shows the first plant with the fields that the repeated request includes', async () => {
    const ask = (query: string) =>
      service.request(`/plants${query}`, { json: { name: 'Ivy', id: 700 }, headers: { 'idempotency-key': 'f' } })
    const [id, plain] = [{ id: 700, name: 'Ivy' }, { name: 'Ivy' }]
    for (const [query, reply, replayed] of [
      ['', plain, null],
      ['?include=id', id, 'true'],
      ['', plain, 'true'],
    ] as const) {
      const answer = await ask(query)
      expect([answer.status, answer.headers.get('idempotency-replayed')]).toEqual([200, replayed])
      expect(await answer.json()).toStrictEqual(reply)
    }
    const refused = await ask('?include=name')
    expect([refused.status, refused.headers.get('idempotency-replayed')]).toEqual([400, null])
  })

  it('of a refused plant may be used again', async () => {
    expect((await add({ name: 'Taken', id: 500 }, null)).status).toBe(200)
    expect((await add({ name: 'Late', id: 500 }, 'e')).status).toBe(409)
    await service.request('/plants/500', { method: 'DELETE' })
    expect((await add({ name: 'Late', id: 500 }, 'e')).status).toBe(200)
  })

  it.for(['', ' ', 'x'.repeat(256)])('of the wrong form is a 400: %j', async (key) => {
    const answer = await add({ name: 'Never' }, key)
    expect(answer.status).toBe(400)
    expect(await names()).not.toContain('Never')
  })
})

it('expired idempotency keys are removed without any request', async () => {
  const { path, remove } = temporaryFolder()
  onTestFinished(remove)
  // Opening the stores creates the tables.
  await storesForThisTest(path)
  const sql = await sqlForThisTest(path)
  const now = Math.floor(Date.now() / 1000)
  await sql.run("INSERT INTO accounts (id, name, created) VALUES (7, 'gardeners', 0)")
  await sql.run(
    `
    INSERT INTO idempotency_keys (account, key, request, plant, name, created)
    WITH RECURSIVE ids (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < 2000)
    SELECT 7, 'key ' || id, 'r', id, 'Fern', CASE WHEN id <= 3 THEN CAST(? AS BIGINT) ELSE id END FROM ids`,
    now - 3600,
  )
  const own = await startTestService({ DATA_DIR: path })
  onTestFinished(() => own.close())
  const left = () => sql.run<{ key: string }>('SELECT key FROM idempotency_keys ORDER BY key')
  await eventually(async () => {
    expect((await left()).map(({ key }) => key)).toEqual(['key 1', 'key 2', 'key 3'])
  })
})

describe('an ETag', () => {
  it('gives a 304 while nothing has changed, and never after an acknowledged write', async () => {
    for (const [index, query] of ['', '?limit=1', '?tag=shade'].entries()) {
      const path = `/plants${query}`
      const first = await service.request(path)
      const tag = first.headers.get('etag') ?? ''
      expect(tag).toMatch(/^W\/".+"$/)
      for (const sent of [tag, tag.slice(2), `"x", ${tag}`, '*']) {
        const same = await service.request(path, { headers: { 'if-none-match': sent } })
        expect([same.status, await same.text(), same.headers.get('etag')]).toEqual([304, '', tag])
      }
      // All of these lists show this plant.
      await add({ name: 'New', id: -index, tag: 'shade' }, null)
      const next = await service.request(path, { headers: { 'if-none-match': tag } })
      expect(next.status).toBe(200)
      expect(next.headers.get('etag')).not.toBe(tag)
    }
  })

  it('changes when a plant of the account is deleted, and not for other accounts', async () => {
    const other = await service.makeKey('bystander')
    const theirs = () => service.request('/plants', { headers: { authorization: `Bearer ${other}` } })
    // Another process wrote the key to the database, which changes every version over SQLite. The ETags are read afterwards.
    const [mine, before] = [await service.request('/plants'), await theirs()]
    await service.request('/plants/1', { method: 'DELETE' })
    expect((await service.request('/plants')).headers.get('etag')).not.toBe(mine.headers.get('etag'))
    expect((await theirs()).headers.get('etag')).toBe(before.headers.get('etag'))
  })

  it('hides no write from a read that begins after the write, even if pages are cached', async () => {
    for (let round = 0; round < 50; round++) {
      const name = `Seen ${round}`
      await service.request('/plants?limit=1000')
      await add({ name }, null)
      expect(await (await service.request('/plants?limit=1000')).text()).toContain(`"${name}"`)
    }
  })
})
