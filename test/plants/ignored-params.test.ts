import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { anyCharacter } from '../support/any-character.ts'
import { expectError } from '../support/http.ts'
import { newCaller, plantInBulk, plantServiceForThisFile } from '../support/plant-callers.ts'

plantServiceForThisFile()

/** The ignored names of a reply; null without the header. */
function ignoredIn(response: Response): readonly string[] | null {
  return response.headers.get('x-ignored-params')?.split(',').map(decodeURIComponent) ?? null
}

describe('x-ignored-params of plants', () => {
  it('is missing if all names are known', async () => {
    const caller = await newCaller()
    const json = { name: 'a', id: 7, tag: 'x' }
    for (const response of [
      await caller.send('/plants?include=id', { json }),
      await caller.send('/plants?limit=1&tag=x&include=id'),
      await caller.send('/plants/7?include=id'),
      await caller.send('/plants/7', { method: 'DELETE' }),
    ]) {
      expect([response.ok, ignoredIn(response)]).toEqual([true, null])
    }
  })

  it('has each name that a route does not know once, with any status', async () => {
    const caller = await newCaller()
    const add = (query: string, json: object, key?: string) =>
      caller.send(`/plants${query}`, { json, headers: key === undefined ? {} : { 'idempotency-key': key } })
    const body = { name: 'a', id: 7, Tag: 'x', limit: 2, watered: null }
    const sent: readonly (readonly [status: number, send: () => Promise<Response>, ignored: readonly string[]])[] = [
      [200, () => add('?limit=1&tag=x', body, 'k'), ['limit', 'tag', 'Tag', 'watered']],
      [200, () => add('', body, 'k'), ['Tag', 'limit', 'watered']],
      [422, () => add('?a=1', { name: 'b' }, 'k'), ['a']],
      [409, () => add('', { name: 'b', id: 7, constructor: 1 }), ['constructor']],
      [200, () => caller.send('/plants?Limit=0&query=a&query=b&include[]=id'), ['Limit', 'query', 'include[]']],
      [200, () => caller.send('/plants?limit=5&offset=3', { method: 'HEAD' }), ['offset']],
      [200, () => caller.send('/plants/7?tag=x'), ['tag']],
      [404, () => caller.send('/plants/8?tag=x'), ['tag']],
      [404, () => caller.send('/plants/8?include=id', { method: 'DELETE' }), ['include']],
      [204, () => caller.send('/plants/7?force', { method: 'DELETE', json: { why: 'dry' } }), ['force', 'why']],
    ]
    for (const [status, send, ignored] of sent) {
      const response = await send()
      expect([response.status, ignoredIn(response)]).toEqual([status, ignored])
    }
  })

  it('is on cached, unchanged and long pages too', async () => {
    const caller = await newCaller()
    await plantInBulk(
      caller,
      Array.from({ length: 1001 }, (_, id) => ({ id, name: 'a' })),
    )
    for (const path of ['/plants?limit=1&page=2', '/plants?page=2', '/plants?limit=1001&page=2']) {
      let etag = ''
      for (let times = 0; times < 4; times++) {
        const response = await caller.send(path, { headers: { 'if-none-match': times === 3 ? etag : null } })
        await response.text()
        etag = response.headers.get('etag') ?? ''
        expect([path, response.status, ignoredIn(response)]).toEqual([path, times === 3 ? 304 : 200, ['page']])
      }
    }
  })

  it('has exactly the unknown names, and does not change the written plant', async () => {
    const caller = await newCaller()
    const known = ['name', 'id', 'tag']
    const name = fc
      .oneof(fc.string({ unit: anyCharacter, maxLength: 5 }), fc.constantFrom('__proto__', 'constructor', 'ID', 'a,b'))
      .filter((each) => each !== '' && !known.includes(each))
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(name, { minLength: 1, maxLength: 8 }), async (names) => {
        const fields = names.map((each) => `,${JSON.stringify(each)}:1`).join('')
        const response = await caller.post(`{"name":"a"${fields}}`)
        expect(await response.json()).toStrictEqual({ name: 'a' })
        expect(ignoredIn(response)?.toSorted()).toEqual(names.map((each) => each.toWellFormed()).toSorted())
      }),
      { numRuns: 50 },
    )
  })

  it('is bounded, and has the number of names that do not fit', async () => {
    const caller = await newCaller()
    const fields = Object.fromEntries(Array.from({ length: 999 }, (_, index) => [`field ${index}`, index]))
    const response = await caller.send('/plants', { json: { ...fields, name: 'a' } })
    expect(response.status).toBe(200)
    const header = response.headers.get('x-ignored-params') ?? ''
    expect(header.length).toBeLessThan(4200)
    const named = header.split(',')
    expect(named.pop()).toBe(`+${999 - named.length}`)
    expect(named).toEqual(named.map((_, index) => `field%20${index}`))
    expect(named.length).toBeGreaterThan(200)
    const more = await caller.send('/plants', { json: { ...fields, name: 'a', tag: 'b' } })
    expect(await more.json()).toMatchObject({ error: 400, message: 'The body has more than 1000 fields. Send fewer.' })
  })

  it('is missing if a known field or parameter is invalid, because then nothing was ignored', async () => {
    const caller = await newCaller()
    for (const response of [await caller.post('{"nmae": "a"}'), await caller.send('/plants?limit=0&q=1')]) {
      await expectError(response, 'plants', 400)
      expect(ignoredIn(response)).toBeNull()
    }
  })
})
