import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError as expectErrorBody } from '../support/http.ts'
import { putIntoLedger } from '../support/ledger.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { openSql } from '../support/test-sql.ts'

let service: TestService
/** The key of the account that has the id 2. */
let other = ''

beforeAll(async () => {
  service = await startTestService()
  other = await service.makeKey('other', ['chat'])
  const sql = await openSql(service.dataDirectory)
  await putIntoLedger(sql, [
    { id: 'req_1', created: '2020-11-18T08:00:00Z' },
    { id: 'req_2', created: '2020-11-19T08:00:00Z', model: 'gpt', state: 'timeout' },
    { id: 'req_3', created: '2020-11-20T08:00:00Z', state: 'running' },
    { id: 'req_4', created: '2020-11-20T09:00:00Z', model: 'gpt' },
    { id: 'req_5', account: 2, created: '2020-11-20T10:00:00Z' },
  ])
  await sql.close()
})

afterAll(() => service?.close())

/** Expects a refusal in OpenAI's shape, with this code and parameter. */
async function expectError(response: Response, status: number, code: string, param: string | null = null) {
  expect(await expectErrorBody(response, 'chat', status)).toMatchObject({ code, param })
}

interface Page {
  readonly object: string
  readonly data: readonly { readonly id: string }[]
  readonly has_more: boolean
}

const ask = (query: string, key = service.key) =>
  service.request(`/requests${query}`, { headers: { authorization: `Bearer ${key}` } })

async function page(query: string, key = service.key): Promise<Page> {
  const response = await ask(query, key)
  expect(response.status).toBe(200)
  return JSON.parse(await response.text())
}

/** The ids of a page, which must be the last page. */
async function ids(query: string, key = service.key): Promise<readonly string[]> {
  const { data, has_more } = await page(query, key)
  expect(has_more).toBe(false)
  return data.map(({ id }) => id)
}

describe('GET /requests', () => {
  test("lists the account's requests, newest first, each as `GET /requests/{id}` shows it", async () => {
    const { object, data } = await page('')
    expect([object, data.map(({ id }) => id)]).toEqual(['list', ['req_4', 'req_3', 'req_2', 'req_1']])
    for (const request of data) {
      expect(request).toEqual(await (await service.request(`/requests/${request.id}`)).json())
    }
    expect(await ids('', other)).toEqual(['req_5'])
  })

  test('goes page by page, and misses nothing when requests are added meanwhile', async () => {
    const first = await page('?limit=2')
    expect([first.data.map(({ id }) => id), first.has_more]).toEqual([['req_4', 'req_3'], true])
    const messages = [{ role: 'user', content: 'Hello' }]
    const key = await service.makeKey('owner', ['chat'])
    const headers = { authorization: key }
    expect((await service.request('/chat/completions', { headers, json: { model: 'no', messages } })).status).toBe(404)
    await service.request('/chat/completions', { headers, json: { model: 'understudy', messages } })
    expect(await ids('?limit=2&after=req_3')).toEqual(['req_2', 'req_1'])
    expect(await ids('?after=req_1')).toEqual([])
    expect((await page('?limit=1')).data).toMatchObject([{ model: 'understudy', state: 'stop' }])
  })

  test('keeps the order of requests within one second', async () => {
    const key = await service.makeKey('quick', ['chat'])
    const sent: (string | null)[] = []
    for (let count = 0; count < 5; count++) {
      const json = { model: 'understudy', messages: [{ role: 'user', content: `Hello ${count}` }] }
      const reply = await service.request('/chat/completions', { headers: { authorization: key }, json })
      await reply.text()
      sent.unshift(reply.headers.get('x-request-id'))
    }
    expect(await ids('', key)).toEqual(sent)
  })

  test.each([
    ['?from=2020-11-19&to=2020-11-19', ['req_2']],
    ['?to=2020-11-19T08:00:00Z', ['req_1']],
    ['?model=gpt&to=2020-11-20', ['req_4', 'req_2']],
    ['?state=running', ['req_3']],
    ['?state=timeout&model=gpt', ['req_2']],
    ['?model=nobody%00', []],
    ['?model=nobody', []],
  ])('%s lists %j', async (query, expected) => {
    expect(await ids(query)).toEqual(expected)
  })

  test.each([
    ['?limit=0', 'limit'],
    ['?limit=1001', 'limit'],
    ['?limit=1&limit=2', 'limit'],
    ['?after=req_5', 'after'],
    ['?after=', 'after'],
    ['?after=%00', 'after'],
    ['?from=yesterday', 'from'],
    ['?from=2020-11-20&to=2020-11-19', 'from'],
    ['?state=done', 'state'],
    ['?model=a&model=b', 'model'],
    ['?account=nobody', 'account'],
  ])('%s is a 400 that names the parameter', async (query, param) => {
    await expectError(await ask(query), 400, 'invalid_field', param)
  })

  test('shows another account only to a key with the scope admin', async () => {
    expect(await ids('?account=other')).toEqual(['req_5'])
    expect(await ids('?account=other&after=req_5')).toEqual([])
    await expectError(await ask('?account=other&after=req_4'), 400, 'invalid_field', 'after')
    for (const name of ['owner', 'other', 'nobody']) {
      await expectError(await ask(`?account=${name}`, other), 403, 'missing_scope', 'account')
    }
  })
})

describe('the scopes', () => {
  test.each([[['admin'] as const], [['keys'] as const], [['chat'] as const]])(
    '%j reads requests and usage',
    async (scopes) => {
      const key = await service.makeKey('owner', scopes)
      for (const path of ['/requests', '/requests/req_1', '/usage']) {
        const response = await service.request(path, { headers: { authorization: key } })
        expect([path, response.status]).toEqual([path, 200])
      }
    },
  )

  test('keys with other scopes read neither requests nor usage', async () => {
    const key = await service.makeKey('owner', ['plants:read', 'plants:write', 'characters:write'])
    for (const path of ['/requests', '/requests/req_1', '/usage']) {
      await expectError(await service.request(path, { headers: { authorization: key } }), 403, 'missing_scope')
    }
  })
})
