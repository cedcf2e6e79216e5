import { expect, it } from 'vitest'
import type { PortablePlant } from '../../src/plants/portable.ts'
import { engines } from '../support/engines.ts'

it.each(engines)('$name imports all plants into the account that is named, or none', async (engine) => {
  const database = await engine.openDatabase()
  try {
    const plants = database.openPlants()
    const account = await database.newAccount()
    const neighbour = await database.newAccount()
    const fern: PortablePlant = { id: 7, name: 'Fern', tag: 'shade' }
    const held = async (of: number) => {
      const found: PortablePlant[] = []
      await plants.exportPlants(of, { begin() {}, add: (some) => void found.push(...some), end() {} })
      return found
    }
    await plants.importPlants(account, [fern], () => 'Line 2')
    const twice = plants.importPlants(account, [{ id: 8, name: 'Moss' }, fern], (index) => `Line ${index + 2}`)
    await expect(twice).rejects.toThrow('Line 3: there is a plant with the id 7 already. Nothing was imported.')
    const gone = plants.importPlants(account + 100, [fern], () => 'Line 2')
    await expect(gone).rejects.toMatchObject({ status: 403, code: 'account_deleted' })
    expect([await held(account), await held(neighbour)]).toStrictEqual([[fern], []])
    // What was imported counts for the limit, and for the ids that are given.
    await expect(plants.create(account, { name: 'Ivy' }, undefined, 1)).rejects.toMatchObject({ code: 'plants_limit' })
    expect((await plants.create(account, { name: 'Ivy' }, undefined, 2)).plant.id).toBe(8)
  } finally {
    await database.close()
  }
})
