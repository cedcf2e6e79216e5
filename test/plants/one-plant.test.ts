import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Plant } from '../../src/plants/schemas.ts'
import { expectError } from '../support/http.ts'
import { newCaller, plantInBulk, plantServiceForThisFile, sql } from '../support/plant-callers.ts'
import { everythingKept } from '../support/test-sql.ts'

plantServiceForThisFile()

describe('GET and DELETE /plants/{id}', () => {
  it('return one plant, remove it once, and do not change other plants', async () => {
    const caller = await newCaller()
    await plantInBulk(caller, [
      { id: -3, name: 'a' },
      { id: 7, name: 'b', tag: 'aroid' },
      { id: 8, name: 'c' },
    ])
    expect(await (await caller.send('/plants/7')).text()).toBe('{"name":"b","tag":"aroid"}')
    expect(await (await caller.send('/plants/-3')).text()).toBe('{"name":"a"}')
    const removed = await caller.send('/plants/7', { method: 'DELETE' })
    expect({ status: removed.status, text: await removed.text() }).toStrictEqual({ status: 204, text: '' })
    expect(removed.headers.get('content-type')).toBeNull()
    await expectError(await caller.send('/plants/7', { method: 'DELETE' }), 'plants', 404)
    await expectError(await caller.send('/plants/7'), 'plants', 404)
    expect(await caller.names()).toStrictEqual(['a', 'c'])
    expect((await caller.post('{"name": "again", "id": 7}')).status).toBe(200)
  })

  it('accept a DELETE with a content type and no body', async () => {
    const caller = await newCaller()
    await caller.post('{"name": "a", "id": 7}')
    const headers = { 'content-type': 'application/json' }
    const removed = await caller.send('/plants/7', { method: 'DELETE', headers })
    expect({ status: removed.status, text: await removed.text() }).toStrictEqual({ status: 204, text: '' })
    await expectError(await caller.send('/plants/7', { method: 'DELETE', headers }), 'plants', 404)
  })

  it.for([
    'x',
    '7x',
    '1.5',
    '1e3',
    '0x7',
    '+7',
    '--7',
    '%20',
    '7%20',
    '%00',
    "7'%20OR%20'1'='1",
    '9007199254740992',
    '9007199254740993',
    '-9007199254740992',
    '99999999999999999999999',
    '٧',
  ])('refuses /plants/%s with 400', async (path) => {
    const caller = await newCaller()
    await plantInBulk(caller, [{ id: 7, name: 'a' }])
    await expectError(await caller.send(`/plants/${path}`), 'plants', 400)
    await expectError(await caller.send(`/plants/${path}`, { method: 'DELETE' }), 'plants', 400)
    expect(await caller.names()).toStrictEqual(['a'])
  })

  it("answer for another account's plant exactly as for an unknown plant", async () => {
    const [owner, stranger] = await Promise.all([newCaller(), newCaller()])
    await owner.post('{"name": "CANARY", "id": 7}')
    const before = await everythingKept(sql)
    for (const method of ['GET', 'DELETE']) {
      const foreign = await expectError(await stranger.send('/plants/7', { method }), 'plants', 404)
      const absent = await expectError(await stranger.send('/plants/8', { method }), 'plants', 404)
      expect(foreign.message).toBe(absent.message)
      expect(foreign.everything).not.toContain('CANARY')
    }
    expect(await everythingKept(sql)).toStrictEqual(before)
    expect(await (await owner.send('/plants/7')).json()).toStrictEqual({ name: 'CANARY' })
  })
})

describe('accounts', () => {
  const account = fc.nat({ max: 2 })
  const id = fc.integer({ min: -2, max: 5 })
  const tag = fc.constantFrom('x', 'y', undefined)
  const command = fc.oneof(
    fc.record({ kind: fc.constant('create'), account, id: fc.option(id, { nil: undefined }), tag }),
    fc.record({ kind: fc.constant('get'), account, id }),
    fc.record({ kind: fc.constant('delete'), account, id }),
    fc.record({ kind: fc.constant('list'), account, tag, limit: fc.constantFrom(1, 2, 5, undefined) }),
  )
  type Garden = Map<number, Plant>

  function sorted(garden: Garden): readonly Plant[] {
    return [...garden].toSorted(([a], [b]) => a - b).map(([, plant]) => plant)
  }

  it('never see or change each other’s plants, with any calls in any order', async () => {
    const people = await Promise.all([newCaller(), newCaller(), newCaller()])
    let planted = 0
    await fc.assert(
      fc.asyncProperty(fc.array(command, { maxLength: 30, size: 'max' }), async (commands) => {
        for (const { account } of people) await sql.run('DELETE FROM plants WHERE account = ?', account)
        const gardens: readonly Garden[] = people.map(() => new Map())
        for (const call of commands) {
          const caller = people[call.account]
          const garden = gardens[call.account]
          if (!caller || !garden) throw new Error('no such account')
          if (call.kind === 'create') {
            const plant = { name: `${call.account}/${++planted}`, ...(call.tag === undefined ? {} : { tag: call.tag }) }
            const body = { ...plant, ...(call.id === undefined ? {} : { id: call.id }) }
            const response = await caller.send('/plants', { json: body })
            const given = call.id ?? Math.max(0, ...garden.keys()) + 1
            if (garden.has(given)) {
              await expectError(response, 'plants', 409)
            } else {
              expect(await response.json()).toStrictEqual(plant)
              expect(response.headers.get('location')).toBe(`/plants/${given}`)
              garden.set(given, plant)
            }
          } else if (call.kind === 'list') {
            const query = new URLSearchParams({
              ...(call.limit === undefined ? {} : { limit: String(call.limit) }),
              ...(call.tag === undefined ? {} : { tag: call.tag }),
            })
            const response = await caller.send(`/plants?${query}`)
            const fitting = sorted(garden).filter((plant) => call.tag === undefined || plant.tag === call.tag)
            expect(await response.json()).toStrictEqual(fitting.slice(0, call.limit))
            expect(response.headers.has('link')).toBe(fitting.length > (call.limit ?? Number.POSITIVE_INFINITY))
          } else {
            const response = await caller.send(`/plants/${call.id}`, { method: call.kind === 'get' ? 'GET' : 'DELETE' })
            const plant = garden.get(call.id)
            if (!plant) {
              await expectError(response, 'plants', 404)
            } else if (call.kind === 'get') {
              expect(await response.json()).toStrictEqual(plant)
            } else {
              expect(response.status).toBe(204)
              garden.delete(call.id)
            }
          }
        }
        for (const [index, caller] of people.entries()) {
          expect(await (await caller.send('/plants')).json()).toStrictEqual(sorted(gardens[index] ?? new Map()))
        }
      }),
      { numRuns: 20 },
    )
  })
})
