import { hash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectError } from '../support/http.ts'
import { startTestService, type TestService } from '../support/service.ts'
import { everythingKept, openSql, type TestSql } from '../support/test-sql.ts'

let service: TestService
let sql: TestSql

beforeAll(async () => {
  service = await startTestService()
  sql = await openSql(service.dataDirectory)
})

afterAll(async () => {
  await sql?.close()
  await service?.close()
})

function post(path: string, body: string): Promise<Response> {
  return service.request(path, { method: 'POST', body, headers: { 'content-type': 'application/json' } })
}

describe('an upload with dry_run', () => {
  const text = JSON.stringify({
    spec: 'chara_card_v3',
    spec_version: '3.0',
    data: {
      name: 'Rehearsed',
      alternate_greetings: 'x',
      character_book: {
        entries: [
          { keys: [], content: 'x' },
          { keys: ['/(?=a)/'], content: 'x' },
        ],
      },
      new_field: [1],
    },
  })

  test('replies 200 with the body of an upload and stores nothing, even if the name is taken', async () => {
    for (const time of [1, 2]) {
      const before = await everythingKept(sql)
      const rehearsed = await post('/characters?dry_run=true', text)
      expect([rehearsed.status, rehearsed.headers.get('location')]).toEqual([200, null])
      const told: unknown = await rehearsed.json()
      expect(told).toMatchObject({
        name: 'Rehearsed',
        digest: `sha256:${hash('sha256', text)}`,
        ignored: ['new_field'],
        refused_regexes: ['/(?=a)/'],
        never_fire: ['entries[0]: no keys, and not constant', 'entries[1]: all keys are refused regular expressions'],
        warnings: ['alternate_greetings is a text and is taken as a single greeting. Write a list of texts.'],
      })
      expect(await everythingKept(sql)).toStrictEqual(before)
      expect((await service.request('/characters/Rehearsed')).status).toBe(time === 1 ? 404 : 200)
      const uploaded = await post('/characters?dry_run=false', text)
      expect(uploaded.status).toBe(time === 1 ? 201 : 409)
      if (time === 1) expect(await uploaded.json()).toEqual(told)
    }
  })

  test('by PUT does not replace the card', async () => {
    const put = (query: string, body: string) =>
      service.request(`/characters/Replaced${query}`, { method: 'PUT', body })
    expect((await put('', text)).status).toBe(201)
    const before = await everythingKept(sql)
    const rehearsed = await put('?dry_run=true', text.replace('new_field', 'newer_field'))
    expect(rehearsed.status).toBe(200)
    expect(await rehearsed.json()).toMatchObject({ name: 'Replaced', ignored: ['newer_field'] })
    expect((await put('?dry_run=1', text)).status).toBe(400)
    expect(await everythingKept(sql)).toStrictEqual(before)
  })

  test.each([
    ['dry_run=yes', text, 400, 'invalid_field'],
    ['dry_run=true', '["x"]', 400, 'card_invalid'],
  ])('refuses ?%s with the body %s', async (query, body, status, code) => {
    const refusal = await expectError(await post(`/characters?${query}`, body), 'chat', status)
    expect(refusal.code).toBe(code)
  })
})
