import { describe, expect, it } from 'vitest'
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
