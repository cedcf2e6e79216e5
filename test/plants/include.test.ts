import { describe, expect, it } from 'vitest'
import { expectError } from '../support/http.ts'
import { cactus, highest, newCaller, plantServiceForThisFile } from '../support/plant-callers.ts'

plantServiceForThisFile()

describe('include=id', () => {
  it('adds only the id to plants that are added, read and listed, whether the id was sent or assigned', async () => {
    const caller = await newCaller()
    for (const [sent, reply] of [
      [
        { name: 'a', id: -highest },
        { id: -highest, name: 'a' },
      ],
      [
        { name: `"${cactus}\\`, tag: ' é ' },
        { id: 1, name: `"${cactus}\\`, tag: 'é' },
      ],
      [
        { name: 'c', id: highest, tag: 'x' },
        { id: highest, name: 'c', tag: 'x' },
      ],
    ] as const) {
      const added = await caller.send('/plants?include=id', { json: sent })
      expect([added.status, await added.json()]).toStrictEqual([200, reply])
      const location = added.headers.get('location')
      expect(location).toBe(`/plants/${reply.id}`)
      expect(await (await caller.send(`${location}?include=id`)).json()).toStrictEqual(reply)
      const { id: _, ...plain } = reply
      expect(await (await caller.send(`${location}`)).json()).toStrictEqual(plain)
    }
    const listed = await caller.send('/plants?tag=x&include=id')
    expect(await listed.text()).toBe('[{"id":9007199254740991,"name":"c","tag":"x"}]')
    const head = await caller.send('/plants?include=id', { method: 'HEAD' })
    expect([head.status, await head.text()]).toEqual([200, ''])
  })

  it('lets a caller delete a plant that it knows only from the list', async () => {
    const caller = await newCaller()
    for (const name of ['a', 'b', 'a']) await caller.post(JSON.stringify({ name }))
    const plants: readonly { readonly id: number; readonly name: string }[] = JSON.parse(
      await (await caller.send('/plants?include=id')).text(),
    )
    for (const { id, name } of plants) {
      if (name === 'a') expect((await caller.send(`/plants/${id}`, { method: 'DELETE' })).status).toBe(204)
    }
    expect(await caller.names()).toEqual(['b'])
  })

  it.for([
    'include=',
    'include',
    'include=name',
    'include=ID',
    'include=id,id',
    'include=id%20',
    'include=id&include=id',
  ])('is the only value, once: ?%s is a 400, and nothing is written', async (query) => {
    const caller = await newCaller()
    await caller.post('{"name": "a", "id": 7}')
    for (const response of [
      await caller.send(`/plants?${query}`),
      await caller.send(`/plants/7?${query}`),
      await caller.send(`/plants?${query}`, { json: { name: 'b' } }),
    ]) {
      const { message } = await expectError(response, 'plants', 400)
      expect(message).toContain('"include"')
    }
    expect(await caller.names()).toEqual(['a'])
  })
})
