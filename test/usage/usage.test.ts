import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../support/http.ts'
import { putIntoLedger } from '../support/ledger.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { openSql, type TestSql } from '../support/test-sql.ts'

const id = 'req_6f1c0a5be2d94f7f8a3000000000002a'
const foreignId = 'req_6f1c0a5be2d94f7f8a3000000000002b'
const runningId = 'req_6f1c0a5be2d94f7f8a3000000000002c'
const fern = 'Fern@sha256:0d0c4c7f5e2f4f0b8a3d8f1c5b6a79e8d7c6b5a4938271605f4e3d2c1b0a9988'

let service: TestService
let sql: TestSql
/** The key of the account that has the id 2. */
let other = ''

beforeAll(async () => {
  service = await startTestService()
  sql = await openSql(service.dataDirectory)
  other = await service.makeKey('other', ['chat'])
  await putIntoLedger(sql, [
    { id, created: '2026-11-20T08:15:22Z', character: fern, promptTokens: 11, completionTokens: 7 },
    { created: '2026-11-20T23:59:59Z', key: 'cv_cd34', model: 'gpt', promptTokens: 100, completionTokens: 50 },
    { created: '2026-11-19T00:00:00Z', model: 'gpt', state: 'client_gone', promptTokens: 20, completionTokens: 1 },
    ...['timeout', 'upstream_error', 'interrupted', 'key_revoked'].map((state) => ({
      created: '2026-11-18T12:00:00Z',
      state,
      promptTokens: 1,
    })),
    ...['length', 'tool_calls', 'content_filter'].map((state) => ({
      created: '2026-11-18T13:00:00Z',
      state,
      promptTokens: 1,
    })),
    { id: runningId, created: '2026-11-20T09:00:00Z', state: 'running', promptTokens: 900 },
    { id: foreignId, account: 2, created: '2026-11-20T08:00:00Z', promptTokens: 1000, completionTokens: 1000 },
  ])
})

afterAll(async () => {
  await sql?.close()
  await service?.close()
})

async function usage(query: string, key = service.key): Promise<readonly Record<string, unknown>[]> {
  const response = await service.request(`/usage?${query}`, { headers: { authorization: key } })
  expect(response.status).toBe(200)
  const body: { data: readonly Record<string, unknown>[] } = JSON.parse(await response.text())
  expect(body).toEqual({ object: 'list', data: expect.any(Array), has_more: false })
  return body.data
}

describe('GET /requests/{id}', () => {
  test('shows the record of a request, and nothing else', async () => {
    const response = await service.request(`/requests/${id}`)
    expect(response.status).toBe(200)
    expect(await response.text()).toBe(
      JSON.stringify({
        object: 'request',
        id,
        created: Date.UTC(2026, 10, 20, 8, 15, 22) / 1000,
        key: 'cv_ab12',
        model: 'best',
        model_used: 'gpt',
        character: fern,
        prompt_tokens: 11,
        completion_tokens: 7,
        tokens_exact: true,
        first_token_ms: 41,
        total_ms: 380,
        retries: 2,
        state: 'stop',
        upstream_truncated: null,
      }),
    )
  })

  test('shows a request in flight as running', async () => {
    expect(await (await service.request(`/requests/${runningId}`)).json()).toMatchObject({ state: 'running' })
  })

  test("gives the same 404 for another account's request as for a request that does not exist", async () => {
    const said = await Promise.all(
      [foreignId, `${id}0`, "'%20OR%201=1%20--", '%25', 'plants'].map(async (path) =>
        expectError(await service.request(`/requests/${path}`), 'chat', 404),
      ),
    )
    expect(new Set(said.map(({ code, message }) => `${code} ${message}`)).size).toBe(1)
    const theirs = await service.request(`/requests/${foreignId}`, { headers: { authorization: other } })
    expect(theirs.status).toBe(200)
  })

  test('needs a key with the scope chat, keys or admin', async () => {
    const key = await service.makeKey('owner', ['characters:write', 'plants:read'])
    const refused = await service.request(`/requests/${id}`, { headers: { authorization: key } })
    expect((await expectError(refused, 'chat', 403)).code).toBe('missing_scope')
  })
})

describe('GET /usage', () => {
  test('sums ended requests by day, counts failures, and leaves out running requests', async () => {
    expect(await usage('from=2026-11-01&to=2026-11-30')).toEqual([
      { day: '2026-11-18', requests: 7, prompt_tokens: 7, completion_tokens: 0, failed: 4 },
      { day: '2026-11-19', requests: 1, prompt_tokens: 20, completion_tokens: 1, failed: 0 },
      { day: '2026-11-20', requests: 2, prompt_tokens: 111, completion_tokens: 57, failed: 0 },
    ])
  })

  test.each([
    ['model', ['gpt', 'best']],
    ['key', ['cv_cd34', 'cv_ab12']],
    ['character', [null, fern]],
  ])('sums up by %s, the most tokens first', async (by, groups) => {
    const lines = await usage(`from=2026-11-01&to=2026-11-30&by=${by}`)
    expect(lines.map((line) => line[by])).toEqual(groups)
    expect(lines.map((line) => Object.keys(line)[0])).toEqual([by, by])
    expect(lines.reduce((sum, { requests }) => sum + Number(requests), 0)).toBe(10)
  })

  test.each([
    ['from=2026-11-19&to=2026-11-19', ['2026-11-19']],
    ['from=2026-11-19&to=2026-11-20T23:59:59Z', ['2026-11-19', '2026-11-20']],
    ['from=2026-11-19T00:00:01Z&to=2026-11-20T08:15:22Z', []],
    ['from=2026-11-19T01:00:00%2B01:00&to=2026-11-19T00:00:01Z', ['2026-11-19']],
  ])('has the requested days: %s', async (query, days) => {
    expect((await usage(query)).map(({ day }) => day)).toEqual(days)
  })

  test('shows the last 30 days by default', async () => {
    const asked = await service.makeKey('recent', ['admin'])
    const [today, before] = [0, 31].map((days) => new Date(Date.now() - days * 86_400_000).toISOString())
    await putIntoLedger(sql, [
      { account: 3, created: `${today?.slice(0, 19)}Z`, promptTokens: 5 },
      { account: 3, created: `${before?.slice(0, 19)}Z`, promptTokens: 6 },
    ])
    expect(await usage('', asked)).toEqual([
      { day: today?.slice(0, 10), requests: 1, prompt_tokens: 5, completion_tokens: 0, failed: 0 },
    ])
  })

  test('never counts requests of another account', async () => {
    expect(await usage('from=2026-11-01&to=2026-11-30&by=day', other)).toEqual([
      { day: '2026-11-20', requests: 1, prompt_tokens: 1000, completion_tokens: 1000, failed: 0 },
    ])
  })

  test('counts each of many requests once, even if many were made in the same second', async () => {
    const key = await service.makeKey('busy', ['chat'])
    const rows = Array.from({ length: 9001 }, (_, index) => ({
      account: 4,
      created: index < 5000 ? '2026-11-20T08:00:00Z' : `2026-11-20T09:00:${String(index % 60).padStart(2, '0')}Z`,
      model: `model ${index % 1001}`,
      completionTokens: 1,
    }))
    await putIntoLedger(sql, rows)
    expect(await usage('from=2026-11-20&to=2026-11-20', key)).toEqual([
      { day: '2026-11-20', requests: 9001, prompt_tokens: 0, completion_tokens: 9001, failed: 0 },
    ])
    const byModel = await service.request('/usage?from=2026-11-20&to=2026-11-20&by=model', {
      headers: { authorization: key },
    })
    const { data, has_more } = JSON.parse(await byModel.text())
    expect(data).toHaveLength(1000)
    expect(has_more).toBe(true)
  })

  test.each([
    ['from=2026-02-30', 'from'],
    ['to=tomorrow', 'to'],
    ['from=2026-11-21&to=2026-11-20', 'from'],
    ['from=2026-11-20&from=2026-11-21', 'from'],
    ['by=account', 'by'],
    ['by=', 'by'],
    ['by=day&by=key', 'by'],
  ])('refuses %s with a 400 that names the parameter', async (query, param) => {
    expect((await expectError(await service.request(`/usage?${query}`), 'chat', 400)).param).toBe(param)
  })

  test('needs a key with the scope chat, keys or admin', async () => {
    const key = await service.makeKey('owner', ['plants:read', 'plants:write', 'characters:write'])
    await expectError(await service.request('/usage', { headers: { authorization: key } }), 'chat', 403)
    await expectError(await service.request('/usage', { headers: { authorization: null } }), 'chat', 401)
    await expectError(await service.request('/usage', { method: 'POST', json: {} }), 'chat', 405)
  })
})
